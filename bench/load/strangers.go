package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"os"
	"sync/atomic"
	"time"
)

const (
	openingAtOnce = 50
	idlePause     = 100 * time.Millisecond // before one that was closed comes again
	junkPause     = time.Second            // junk is closed at once
	junkBytesMax  = 400
)

// strangers are so many connections that nobody has logged in on, kept up until standard input ends.
// "up" on standard output says that all are there.
//
//	idle   say nothing
//	half   begin a handshake of TLS, or of SASL where there is no TLS, and do not answer what comes
//	junk   send random bytes, again a second after they are closed
func strangers(options *Options) (Result, error) {
	words := map[string]func(*rand.Rand) []byte{
		"idle": func(*rand.Rand) []byte { return nil },
		"half": func(*rand.Rand) []byte { return nil },
		"junk": func(chance *rand.Rand) []byte {
			junk := make([]byte, 1+chance.Intn(junkBytesMax))
			chance.Read(junk)
			return junk
		},
	}[options.way]
	if words == nil {
		return Result{}, fmt.Errorf("strangers have no way %q", options.way)
	}
	if options.way == "half" {
		begun, err := options.beginning()
		if err != nil {
			return Result{}, err
		}
		words = func(*rand.Rand) []byte { return begun }
	}
	pause := idlePause
	if options.way == "junk" {
		pause = junkPause
	}
	var opened atomic.Int64
	failures := make(chan error, options.connections)
	turns := make(chan struct{}, openingAtOnce)
	for index := range options.connections {
		go func() {
			chance := rand.New(rand.NewSource(int64(index)))
			for {
				turns <- struct{}{}
				connection, err := net.Dial("tcp", options.address)
				<-turns
				if err != nil {
					failures <- err
					return
				}
				opened.Add(1)
				connection.Write(words(chance))
				io.Copy(io.Discard, connection) // until the broker closes it
				connection.Close()
				time.Sleep(pause)
			}
		}()
	}
	meter := startMeter(options.pids)
	for opened.Load() < int64(options.connections) && len(failures) == 0 {
		time.Sleep(time.Millisecond)
	}
	if len(failures) > 0 {
		return Result{}, <-failures
	}
	fmt.Println("up")
	io.Copy(io.Discard, os.Stdin)
	result := meter.result(nil)
	result.Requests = opened.Load()
	select {
	case err := <-failures:
		return result, err
	default:
		return result, nil
	}
}

// beginning is what a client says first: the hello of TLS, or the first words of SASL.
func (options *Options) beginning() ([]byte, error) {
	if options.security.tls == nil {
		handshake := plainRequest(saslHandshakeKey, saslHandshakeVersion, appendString(nil, "SCRAM-SHA-256"))
		token := "n,,n=" + options.security.user + ",r=" + nonce
		body := append([]byte{0, 0, 0, byte(len(token))}, token...)
		return append(handshake, plainRequest(saslAuthenticateKey, saslAuthenticateVersion, body)...), nil
	}
	config := options.security.tls.Clone()
	config.ServerName, _, _ = net.SplitHostPort(options.address)
	first := &FirstWords{}
	if err := tls.Client(first, config).Handshake(); !errors.Is(err, io.EOF) {
		return nil, err
	}
	return first.said, nil
}

// FirstWords is a connection that ends as soon as something was said.
type FirstWords struct {
	net.Conn
	said []byte
}

func (first *FirstWords) Write(data []byte) (int, error) {
	first.said = append(first.said, data...)
	return len(data), nil
}

func (first *FirstWords) Read([]byte) (int, error) { return 0, io.EOF }
func (first *FirstWords) Close() error             { return nil }
