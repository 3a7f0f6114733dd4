package upstream

import (
	"net"
	"testing"
)

func TestAddressesOfTheOwnNetworkAreRefusedInEveryForm(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{
		"127.0.0.1", "127.1.2.3", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
		"0.1.2.3", "192.0.0.8", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
		"::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1",
		"::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::169.254.169.254", "64:ff9b::10.0.0.1",
		"64:ff9b:1::8.8.8.8", "2002:7f00:1::", "2002:a9fe:a9fe::1", "2002:c0a8:101::",
	} {
		if err := refusePrivate("tcp", net.JoinHostPort(addr, "443"), nil); err == nil {
			t.Errorf("%s may be called", addr)
		}
	}
	for _, addr := range []string{"8.8.8.8", "1.1.1.1", "100.128.0.1", "172.32.0.1", "2606:4700::1111", "64:ff9b::8.8.8.8", "2002:808:808::", "::ffff:8.8.8.8"} {
		if err := refusePrivate("tcp", net.JoinHostPort(addr, "443"), nil); err != nil {
			t.Errorf("%s is refused: %v", addr, err)
		}
	}
}
