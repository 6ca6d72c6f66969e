package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	saslHandshakeKey        = 17
	saslHandshakeVersion    = 1
	saslAuthenticateKey     = 36
	saslAuthenticateVersion = 1
	saslRefused             = 58
	nonce                   = "penstockbenchnonce" // the same each time: nothing is secret here
)

// Security is how connections are protected, and as whom they log in. Without -ca they are in plain
// text, without -mechanism nobody logs in.
type Security struct {
	authority   string
	certificate string
	mechanism   string
	user        string
	password    string

	tls    *tls.Config
	cipher atomic.Value // the suite that a broker has chosen
	salted sync.Map     // passwords as salted for one broker: hashing them is the client's cost
}

func (security *Security) declare() {
	flag.StringVar(&security.authority, "ca", "", "PEM file of the authority that is trusted: TLS 1.3")
	flag.StringVar(&security.certificate, "certificate", "", "PEM file with a key and its certificate")
	flag.StringVar(&security.mechanism, "mechanism", "", "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
	flag.StringVar(&security.user, "user", "", "who logs in")
	flag.StringVar(&security.password, "password", "", "")
}

func (security *Security) load() error {
	security.cipher.Store("")
	if security.authority == "" {
		return nil
	}
	trusted, err := os.ReadFile(security.authority)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(trusted) {
		return fmt.Errorf("%s has no certificate", security.authority)
	}
	// Records of full size from the start, as other clients have them.
	security.tls = &tls.Config{
		RootCAs: pool, MinVersion: tls.VersionTLS13, DynamicRecordSizingDisabled: true,
	}
	if security.certificate != "" {
		pair, err := tls.LoadX509KeyPair(security.certificate, security.certificate)
		if err != nil {
			return err
		}
		security.tls.Certificates = []tls.Certificate{pair}
	}
	return nil
}

// dial connects with buffers as large as the system gives by itself, and logs in where that is asked for.
func (options *Options) dial(address string) (net.Conn, error) {
	connection, err := options.security.open(address)
	if err != nil {
		return nil, err
	}
	if options.security.mechanism != "" {
		if err := options.security.logIn(connection); err != nil {
			connection.Close()
			return nil, err
		}
	}
	return connection, nil
}

// open connects, without a log-in.
func (security *Security) open(address string) (net.Conn, error) {
	connection, err := net.Dial("tcp", address)
	if err != nil || security.tls == nil {
		return connection, err
	}
	config := security.tls.Clone()
	config.ServerName, _, _ = net.SplitHostPort(address)
	encrypted := tls.Client(connection, config)
	if err := encrypted.Handshake(); err != nil {
		connection.Close()
		return nil, err
	}
	security.cipher.Store(tls.CipherSuiteName(encrypted.ConnectionState().CipherSuite))
	return encrypted, nil
}

// LoginRefused is a log-in with the wrong words.
type LoginRefused struct{ message string }

func (refused *LoginRefused) Error() string { return "log-in refused: " + refused.message }

func (security *Security) logIn(connection net.Conn) error {
	body := appendString(nil, security.mechanism)
	reply, err := askPlainly(connection, saslHandshakeKey, saslHandshakeVersion, body)
	if err != nil {
		return err
	}
	if code := binary.BigEndian.Uint16(reply); code != 0 {
		return fmt.Errorf("%s is not offered: error %d", security.mechanism, code)
	}
	switch security.mechanism {
	case "PLAIN":
		_, err = authenticate(connection, []byte("\x00"+security.user+"\x00"+security.password))
	case "SCRAM-SHA-256":
		err = security.scram(connection, sha256.New)
	case "SCRAM-SHA-512":
		err = security.scram(connection, sha512.New)
	default:
		err = fmt.Errorf("no mechanism is called %q", security.mechanism)
	}
	return err
}

// scram is RFC 5802 without channel binding.
func (security *Security) scram(connection net.Conn, algorithm func() hash.Hash) error {
	first := "n=" + security.user + ",r=" + nonce
	challenge, err := authenticate(connection, []byte("n,,"+first))
	if err != nil {
		return err
	}
	var server, salt string
	var iterations int
	for _, part := range strings.Split(string(challenge), ",") {
		switch {
		case strings.HasPrefix(part, "r="):
			server = part[2:]
		case strings.HasPrefix(part, "s="):
			salt = part[2:]
		case strings.HasPrefix(part, "i="):
			iterations, _ = strconv.Atoi(part[2:])
		}
	}
	salted, err := security.saltedPassword(algorithm, salt, iterations)
	if err != nil {
		return err
	}
	last := "c=biws,r=" + server
	signed := first + "," + string(challenge) + "," + last
	key := sum(algorithm, salted, "Client Key")
	stored := algorithm()
	stored.Write(key)
	proof := sum(algorithm, stored.Sum(nil), signed)
	for index := range proof {
		proof[index] ^= key[index]
	}
	last += ",p=" + base64.StdEncoding.EncodeToString(proof)
	answer, err := authenticate(connection, []byte(last))
	if err != nil {
		return err
	}
	signature := sum(algorithm, sum(algorithm, salted, "Server Key"), signed)
	if string(answer) != "v="+base64.StdEncoding.EncodeToString(signature) {
		return errors.New("the broker does not know the password itself")
	}
	return nil
}

// saltedPassword is PBKDF2, done once for each salt.
func (security *Security) saltedPassword(algorithm func() hash.Hash, salt string, iterations int) ([]byte, error) {
	if known, found := security.salted.Load(salt); found {
		return known.([]byte), nil
	}
	raw, err := base64.StdEncoding.DecodeString(salt)
	if err != nil || iterations < 1 {
		return nil, errors.New("not a challenge of SCRAM")
	}
	block := sum(algorithm, []byte(security.password), string(raw)+"\x00\x00\x00\x01")
	result := append([]byte(nil), block...)
	for range iterations - 1 {
		block = sum(algorithm, []byte(security.password), string(block))
		for index := range result {
			result[index] ^= block[index]
		}
	}
	security.salted.Store(salt, result)
	return result, nil
}

func sum(algorithm func() hash.Hash, key []byte, text string) []byte {
	mac := hmac.New(algorithm, key)
	io.WriteString(mac, text)
	return mac.Sum(nil)
}

// authenticate sends one token and returns the broker's.
func authenticate(connection net.Conn, token []byte) ([]byte, error) {
	body := append(binary.BigEndian.AppendUint32(nil, uint32(len(token))), token...)
	reply, err := askPlainly(connection, saslAuthenticateKey, saslAuthenticateVersion, body)
	if err != nil {
		return nil, err
	}
	code := binary.BigEndian.Uint16(reply)
	message, rest := takeString(reply[2:])
	if code == saslRefused {
		return nil, &LoginRefused{message}
	}
	if code != 0 || len(rest) < 4 {
		return nil, fmt.Errorf("log-in failed with error %d: %s", code, message)
	}
	return rest[4 : 4+binary.BigEndian.Uint32(rest)], nil
}

// askPlainly sends a request that has no tagged fields, and returns the body of the reply.
func askPlainly(connection net.Conn, key, version int, body []byte) ([]byte, error) {
	if _, err := connection.Write(plainRequest(key, version, body)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(connection, size[:]); err != nil {
		return nil, err
	}
	reply := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(connection, reply); err != nil {
		return nil, err
	}
	if len(reply) < 4+2 {
		return nil, fmt.Errorf("a reply of %d bytes", len(reply))
	}
	return reply[4:], nil
}

func plainRequest(key, version int, body []byte) []byte {
	head := header(key, version)
	request := append(head[:len(head)-1], body...) // before tagged fields there were none
	binary.BigEndian.PutUint32(request, uint32(len(request)-4))
	return request
}

func appendString(buffer []byte, text string) []byte {
	return append(binary.BigEndian.AppendUint16(buffer, uint16(len(text))), text...)
}

func takeString(data []byte) (string, []byte) {
	size := int(int16(binary.BigEndian.Uint16(data)))
	if size < 0 {
		return "", data[2:]
	}
	return string(data[2 : 2+size]), data[2+size:]
}
