package store

import (
	"fmt"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

func bucketOf(key string) int { return shard.BucketOf(key) }

// viewOf is where a shard is kept.
func viewOf(key string) (syncv1.View, error) {
	domain, err := shard.DomainOf(key)
	if err != nil {
		return 0, err
	}
	if domain == shard.Identity {
		return viewIdentity, nil
	}
	return viewStable, nil
}

// bucketHash hashes the shards of one bucket, given by key and hash.
func bucketHash(keys map[string][]byte) []byte {
	entries := make([]shard.Entry, 0, len(keys))
	for key, hash := range keys {
		entries = append(entries, shard.Entry{Key: key, Hash: shard.Hash(hash)})
	}
	sum := shard.BucketHash(entries)
	return sum[:]
}

// buckets are the hashes of all buckets of a view.
type buckets [shard.Buckets]shard.Hash

func emptyBuckets() *buckets {
	var all buckets
	empty := shard.BucketHash(nil)
	for i := range all {
		all[i] = empty
	}
	return &all
}

func (b *buckets) set(bucket int, hash []byte) error {
	if bucket < 0 || bucket >= len(b) || len(hash) != len(shard.Hash{}) {
		return fmt.Errorf("bucket %d with a hash of %d bytes: the stored configuration is damaged", bucket, len(hash))
	}
	b[bucket] = shard.Hash(hash)
	return nil
}

func (b *buckets) root() []byte {
	root := shard.RootOf((*[shard.Buckets]shard.Hash)(b))
	return root[:]
}

func emptyRoot() []byte { return emptyBuckets().root() }
