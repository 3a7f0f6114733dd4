package attempt

import (
	"net/url"
	"strings"

	"github.com/puzpuzpuz/xsync/v4"
)

// bases keeps the base URLs of providers, parsed. They come from configuration, so
// there are few; what old configurations leave behind is dropped now and then.
type bases struct {
	parsed *xsync.Map[string, base]
}

type base struct {
	scheme, host string
	path         string // escaped, without a slash at its end
}

// maxBases is the number of kept base URLs at which all are forgotten.
const maxBases = 4096

func newBases() bases { return bases{parsed: xsync.NewMap[string, base]()} }

// join returns the URL of an escaped path and a query below a base URL.
func (b bases) join(baseURL, path, query string) (*url.URL, error) {
	p, ok := b.parsed.Load(baseURL)
	if !ok {
		u, err := url.Parse(baseURL)
		if err != nil {
			return nil, err
		}
		p = base{scheme: u.Scheme, host: u.Host, path: strings.TrimSuffix(u.EscapedPath(), "/")}
		if b.parsed.Size() >= maxBases {
			b.parsed.Clear()
		}
		b.parsed.Store(baseURL, p)
	}
	u := &url.URL{Scheme: p.scheme, Host: p.host, Path: p.path + path, RawQuery: query}
	if strings.Contains(u.Path, "%") {
		var err error
		u.RawPath = u.Path
		if u.Path, err = url.PathUnescape(u.RawPath); err != nil {
			return nil, err
		}
	}
	return u, nil
}
