package distribute

import (
	"context"

	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/proto"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1/syncv1connect"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

const hashBytes = len(shard.Hash{})

// FetchShards implements aidy.sync.v1.ConfigSyncService. All chunks of an answer
// are of one state, whatever is committed meanwhile.
func (h *Hub) FetchShards(ctx context.Context, req *syncv1.FetchShardsRequest, stream syncv1connect.ConfigSyncServiceFetchShardsServerStream) error {
	if _, err := h.identify(ctx, req.GetNode()); err != nil {
		return err
	}
	if err := h.fetches.Acquire(ctx, 1); err != nil {
		return err
	}
	defer h.fetches.Release(1)
	st := h.state.Load()
	if st == nil {
		return notReady()
	}
	v := st.view(req.GetView())
	if v == nil {
		return connect.Errorf(connect.CodeInvalidArgument, "view %s is not served; ask for VIEW_IDENTITY or VIEW_STABLE", req.GetView())
	}
	buckets, err := differing(v.set, req.GetBucketHashes())
	if err != nil {
		return err
	}
	h.m.fetch(v.view)
	write := deadlineOf(ctx)
	send := func(m *syncv1.FetchShardsResponse) error {
		defer write(h.cfg.WriteTimeout)()
		return stream.Send(m)
	}
	chunk, size := &syncv1.FetchShardsResponse{Target: v.at.proto()}, 0
	for _, b := range buckets {
		chunk.Buckets = append(chunk.Buckets, uint32(b))
		for _, e := range v.set.Bucket(b) {
			u := &syncv1.ShardUpdate{Key: e.Key, Hash: e.Hash[:], Change: &syncv1.ShardUpdate_Payload{Payload: e.Payload}}
			n := proto.Size(u)
			if size > 0 && size+n > h.cfg.ChunkBytes {
				if err := send(chunk); err != nil {
					return err
				}
				chunk, size = &syncv1.FetchShardsResponse{Target: v.at.proto()}, 0
			}
			chunk.Shards = append(chunk.Shards, u)
			size += n
		}
	}
	chunk.Last = true
	return send(chunk)
}

// differing returns the buckets to send: those that differ from the node's, or
// without its hashes those that hold something.
func differing(set *shard.Set, hashes []byte) ([]int, error) {
	switch len(hashes) {
	case 0:
		var all []int
		for b := range shard.Buckets {
			if len(set.Bucket(b)) > 0 {
				all = append(all, b)
			}
		}
		return all, nil
	case shard.Buckets * hashBytes:
		var peer [shard.Buckets]shard.Hash
		for i := range peer {
			peer[i] = shard.Hash(hashes[i*hashBytes:])
		}
		return set.Differing(&peer), nil
	}
	return nil, connect.Errorf(connect.CodeInvalidArgument, "bucket_hashes has %d bytes; send %d hashes of %d bytes, or none for everything", len(hashes), shard.Buckets, hashBytes)
}
