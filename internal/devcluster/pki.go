package devcluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// validity is how long certificates last: longer than any cluster lives.
const validity = 365 * 24 * time.Hour

// credential is a certificate and its key, in PEM.
type credential struct {
	cert, key []byte
}

// write stores both as dir/name.crt and dir/name.key.
func (c credential) write(dir, name string) error {
	if err := os.WriteFile(filepath.Join(dir, name+".crt"), c.cert, 0o644); err != nil {
		return fmt.Errorf("write certificate: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".key"), c.key, 0o600); err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	return nil
}

// authority issues the certificates of one cluster.
type authority struct {
	credential
	parsed *x509.Certificate
	signer *ecdsa.PrivateKey
}

func newAuthority(name string) (*authority, error) {
	template, err := newTemplate(pkix.Name{CommonName: name})
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
	own, key, err := issue(template, template, nil)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(own.cert)
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse the authority's certificate: %w", err)
	}
	return &authority{credential: own, parsed: parsed, signer: key}, nil
}

// client issues a certificate that the API server takes for that user.
func (a *authority) client(user string, groups ...string) (credential, error) {
	template, err := newTemplate(pkix.Name{CommonName: user, Organization: groups})
	if err != nil {
		return credential{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	c, _, err := issue(template, a.parsed, a.signer)
	return c, err
}

// server issues a certificate to serve with under those names and addresses.
func (a *authority) server(name string, hosts ...string) (credential, error) {
	template, err := newTemplate(pkix.Name{CommonName: name})
	if err != nil {
		return credential{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	c, _, err := issue(template, a.parsed, a.signer)
	return c, err
}

func newTemplate(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("choose a serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    now.Add(-time.Hour), // a clock may be set back a little
		NotAfter:     now.Add(validity),
	}, nil
}

// issue makes a key and a certificate for it, signed by the parent's signer,
// or by the new key itself where signer is nil.
func issue(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (credential, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return credential{}, nil, fmt.Errorf("make a key for %s: %w", template.Subject, err)
	}
	if signer == nil {
		signer = key
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return credential{}, nil, fmt.Errorf("sign a certificate for %s: %w", template.Subject, err)
	}
	encoded, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return credential{}, nil, fmt.Errorf("encode the key of %s: %w", template.Subject, err)
	}
	return credential{
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded}),
	}, key, nil
}

// writeSigningKey makes the key pair that signs ServiceAccounts' tokens.
func writeSigningKey(path string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make the token key: %w", err)
	}
	encoded, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode the token key: %w", err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return fmt.Errorf("write the token key: %w", err)
	}
	return nil
}
