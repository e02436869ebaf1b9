package peer

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// Key lets one client connect once to one server: the seed of the client's private key,
// and the digest of the server's public key.
type Key struct {
	seed   [ed25519.SeedSize]byte
	server [sha256.Size]byte
}

// String is the key as it is copied to the other machine.
func (k Key) String() string {
	return base64.RawURLEncoding.EncodeToString(append(bytes.Clone(k.seed[:]), k.server[:]...))
}

// ParseKey reads what String wrote.
func ParseKey(text string) (Key, error) {
	var k Key
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(data) != len(k.seed)+len(k.server) {
		return k, fmt.Errorf("the key has %d characters that cannot be read as one: copy all %d that tare serve printed", len(text), base64.RawURLEncoding.EncodedLen(len(k.seed)+len(k.server)))
	}
	copy(k.seed[:], data)
	copy(k.server[:], data[len(k.seed):])
	return k, nil
}

// oneTime makes keys for one connection: the client's, and the server's configuration.
func oneTime() (Key, *tls.Config, error) {
	var k Key
	if _, err := rand.Read(k.seed[:]); err != nil {
		return k, nil, fmt.Errorf("one-time key: %w", err)
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return k, nil, fmt.Errorf("one-time key: %w", err)
	}
	own, digest, err := certificate(private)
	if err != nil {
		return k, nil, err
	}
	_, client, err := certificate(ed25519.NewKeyFromSeed(k.seed[:]))
	if err != nil {
		return k, nil, err
	}
	k.server = digest
	return k, pinned(own, client), nil
}

// client is the configuration of who has the key.
func (k Key) client() (*tls.Config, error) {
	own, _, err := certificate(ed25519.NewKeyFromSeed(k.seed[:]))
	if err != nil {
		return nil, err
	}
	return pinned(own, k.server), nil
}

// certificate is a certificate of a key, signed by itself, with the digest of its public
// key. Nobody checks its dates or names: the digest alone counts.
func certificate(private ed25519.PrivateKey) (tls.Certificate, [sha256.Size]byte, error) {
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return tls.Certificate{}, [sha256.Size]byte{}, fmt.Errorf("one-time certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, [sha256.Size]byte{}, fmt.Errorf("one-time certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private, Leaf: leaf}, sha256.Sum256(leaf.RawSubjectPublicKeyInfo), nil
}

// errStranger is what a handshake with any other key ends with.
var errStranger = errors.New("it has another key")

// pinned is a configuration that accepts one public key of the other side, by its
// digest, and nothing older than TLS 1.3.
func pinned(own tls.Certificate, other [sha256.Size]byte) *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS13, NextProtos: []string{"tare-peer"},
		ClientAuth: tls.RequireAnyClientCert, SessionTicketsDisabled: true,
		InsecureSkipVerify: true, // no authority signs one-time keys: the digest below is the proof
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) != 1 || sha256.Sum256(s.PeerCertificates[0].RawSubjectPublicKeyInfo) != other {
				return errStranger
			}
			return nil
		},
	}
}
