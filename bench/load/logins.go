package main

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// logins has so many connections log in and close again, some at a time. The quantiles are from the
// connect to the end of the log-in.
func logins(options *Options) (Result, error) {
	var left atomic.Int64
	left.Store(int64(options.requests))
	latencies := make([][]time.Duration, options.connections)
	meter := startMeter(options.pids)
	err := atOnce(options.connections, func(index int) error {
		for left.Add(-1) >= 0 {
			started := time.Now()
			connection, err := options.dial(options.address)
			if err != nil {
				return err
			}
			latencies[index] = append(latencies[index], time.Since(started))
			connection.Close()
		}
		return nil
	})
	var all []time.Duration
	for _, some := range latencies {
		all = append(all, some...)
	}
	result := meter.result(all)
	result.Requests = int64(len(all))
	return result, err
}

// failedLogins tries to log in with a wrong password at a fixed rate, however long the refusals take.
// One that is let in is an error. The quantiles are from the connect to the refusal.
func failedLogins(options *Options) (Result, error) {
	var lock sync.Mutex
	var latencies []time.Duration
	interval := time.Second / time.Duration(options.rate)
	started := time.Now()
	meter := startMeter(options.pids)
	err := atOnce(options.requests, func(index int) error {
		due := started.Add(time.Duration(index) * interval)
		time.Sleep(time.Until(due))
		begun := time.Now()
		connection, err := options.dial(options.address)
		if err == nil {
			connection.Close()
			return errors.New("a wrong password was let in")
		}
		var refused *LoginRefused
		if !errors.As(err, &refused) {
			return err
		}
		lock.Lock()
		latencies = append(latencies, time.Since(begun))
		lock.Unlock()
		return nil
	})
	result := meter.result(latencies)
	result.Requests = int64(len(latencies))
	return result, err
}
