package main

import (
	"bufio"
	"fmt"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const gatheredBytesMax = 64 << 10 // requests up to this size leave in one write

// produce sends templates in turn to all partitions, over several connections at once. Each is to one
// leader, and carries the partitions of that leader. There are so many requests, or as many as are
// begun in a time.
func produce(options *Options) (Result, error) {
	groups := options.byLeader()
	if options.connections < len(groups) {
		return Result{}, fmt.Errorf("%d connections for %d leaders", options.connections, len(groups))
	}
	frames := make([][]Frame, len(groups))
	for _, template := range options.templates {
		for group, partitions := range groups {
			for _, partition := range partitions {
				frames[group] = append(frames[group], produceFrame(options, partition, template))
			}
		}
	}
	connections := make([]net.Conn, options.connections)
	for index := range connections {
		var err error
		if connections[index], err = options.dial(options.leader(groups[index%len(groups)][0])); err != nil {
			return Result{}, err
		}
		defer connections[index].Close()
	}
	var left, sentBytes atomic.Int64
	left.Store(int64(options.requests))
	latencies := make([][]time.Duration, options.connections)
	failures := make(chan error, options.connections)
	var group sync.WaitGroup
	meter := startMeter(options.pids)
	if options.lasting > 0 {
		left.Store(math.MaxInt64)
		time.AfterFunc(options.lasting, func() { left.Store(0) })
	}
	for index := range connections {
		group.Add(1)
		go func() {
			defer group.Done()
			sender := &Sender{
				connection: connections[index], frames: frames[index%len(groups)], next: index * 7,
				encrypts: options.security.tls != nil,
			}
			if err := sender.run(&left, options); err != nil {
				failures <- err
			}
			latencies[index] = sender.latencies
			sentBytes.Add(sender.sentBytes)
		}()
	}
	group.Wait()
	var all []time.Duration
	for _, some := range latencies {
		all = append(all, some...)
	}
	result := meter.result(all)
	result.Requests, result.Bytes = int64(len(all)), sentBytes.Load()
	select {
	case err := <-failures:
		return result, err
	default:
		return result, nil
	}
}

// Sender keeps so many requests in flight on one connection: for each ack it sends another.
type Sender struct {
	connection net.Conn
	frames     []Frame
	next       int
	sentAt     []time.Time // of requests in flight, the oldest first
	latencies  []time.Duration
	sentBytes  int64
	gathered   []byte
	encrypts   bool // TLS: each write would be records of its own
}

func (sender *Sender) run(left *atomic.Int64, options *Options) error {
	replies := bufio.NewReaderSize(sender.connection, replyBufferBytes)
	scratch := make([]byte, 4096)
	room := options.inFlight
	for {
		taken := 0
		for taken < room && left.Add(-1) >= 0 {
			taken++
		}
		if err := sender.send(taken); err != nil {
			return err
		}
		if len(sender.sentAt) == 0 {
			return nil
		}
		room = 0
		// Whatever has arrived is taken at once, so that the next requests share a write.
		for room == 0 || (replies.Buffered() >= 4 && len(sender.sentAt) > 0) {
			if err := options.readAck(replies, scratch); err != nil {
				return err
			}
			sender.latencies = append(sender.latencies, time.Since(sender.sentAt[0]))
			sender.sentAt = sender.sentAt[1:]
			room++
		}
	}
}

func (sender *Sender) send(count int) error {
	sender.gathered = sender.gathered[:0]
	for range count {
		frame := sender.frames[sender.next%len(sender.frames)]
		sender.next++
		sender.sentBytes += int64(len(frame.batch))
		sender.sentAt = append(sender.sentAt, time.Now())
		if len(frame.batch) <= gatheredBytesMax/4 || sender.encrypts {
			sender.gathered = frame.appendTo(sender.gathered)
			continue
		}
		buffers := net.Buffers{frame.head, frame.batch, produceTail}
		if _, err := buffers.WriteTo(sender.connection); err != nil {
			return err
		}
	}
	if len(sender.gathered) == 0 {
		return nil
	}
	_, err := sender.connection.Write(sender.gathered)
	return err
}
