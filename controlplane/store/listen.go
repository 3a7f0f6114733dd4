package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	headTimeout  = 2 * time.Second
	reconnectMin = 100 * time.Millisecond
	reconnectMax = 5 * time.Second
)

// Listen calls fn with the head each time it is read: at once after LISTEN is in
// force, after every notification, and every Config.PollInterval give or take a
// fifth. A notification is only a hint: what counts is the head that is read. fn
// is called from one goroutine, moved or not, so that it can tell how fresh its
// knowledge is (Head.Now is the database's clock); it must not block.
//
// Listen holds a connection of its own, reconnects for ever with a growing pause,
// and returns when ctx ends, with its error.
func (s *Store) Listen(ctx context.Context, fn func(Head)) error {
	pause := reconnectMin
	for {
		began := time.Now()
		err := s.listenOnce(ctx, fn)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Since(began) > reconnectMax {
			pause = reconnectMin
		}
		s.log.Warn().Err(err).Dur("retry_after_ms", pause).Msg("config listener lost its connection")
		timer := time.NewTimer(jitter(pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		pause = min(2*pause, reconnectMax)
	}
}

func (s *Store) listenOnce(ctx context.Context, fn func(Head)) error {
	connectCtx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := pgx.ConnectConfig(connectCtx, s.pool.Config().ConnConfig.Copy())
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() {
		closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closeCtx)
	}()
	if _, err := conn.Exec(connectCtx, "LISTEN aidy_config"); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	for {
		head, err := readHead(ctx, conn)
		if err != nil {
			return err
		}
		fn(head)
		waitCtx, cancel := context.WithTimeout(ctx, jitter(s.cfg.PollInterval))
		_, err = conn.WaitForNotification(waitCtx)
		cancel()
		if err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
			return fmt.Errorf("wait for notification: %w", err)
		}
	}
}

func readHead(ctx context.Context, conn *pgx.Conn) (Head, error) {
	ctx, cancel := context.WithTimeout(ctx, headTimeout)
	defer cancel()
	head, err := scanHead(conn.QueryRow(ctx, "SELECT "+headColumns+" FROM config_head"))
	if err != nil {
		return Head{}, fmt.Errorf("read the head: %w", err)
	}
	return head, nil
}

// jitter spreads a duration by a fifth to both sides.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}
