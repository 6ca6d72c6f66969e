package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	tailWaitMs    = 500
	crcAt         = 17
	crcFrom       = 21
	settleSeconds = 5
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// tail produces at a fixed rate while readers wait for each batch; bytes are those delivered.
func tail(options *Options) (Result, error) {
	return produceAndRead(options, nil)
}

// latency does the same with one record a request that carries when it was sent.
func latency(options *Options) (Result, error) {
	var lock sync.Mutex
	var latencies []time.Duration
	started := time.Now()
	stamped := Stamped{
		write: func(batch []byte) {
			// The stamp stands at the end of the value; behind it is the count of headers alone.
			stamp := batch[len(batch)-9 : len(batch)-1]
			binary.BigEndian.PutUint64(stamp, uint64(time.Since(started)))
			sum := crc32.Checksum(batch[crcFrom:], castagnoli)
			binary.BigEndian.PutUint32(batch[crcAt:], sum)
		},
		read: func(batch []byte) {
			sent := time.Duration(binary.BigEndian.Uint64(batch[len(batch)-9:]))
			lock.Lock()
			latencies = append(latencies, time.Since(started)-sent)
			lock.Unlock()
		},
	}
	result, err := produceAndRead(options, &stamped)
	quantiles(&result, latencies)
	return result, err
}

// Stamped is how a batch carries the time it was sent at.
type Stamped struct {
	write func(batch []byte)
	read  func(batch []byte)
}

func produceAndRead(options *Options, stamped *Stamped) (Result, error) {
	groups := options.byLeader()
	var received, expected atomic.Int64
	var ending atomic.Bool
	failures := make(chan error, options.readers*len(groups)+1)
	var group sync.WaitGroup
	for index := range options.readers * len(groups) {
		reader, err := newReader(options, groups[index%len(groups)], tailWaitMs)
		if err != nil {
			return Result{}, err
		}
		defer reader.connection.Close()
		if stamped != nil {
			reader.seen = stamped.read
		}
		group.Add(1)
		go func() {
			defer group.Done()
			for !ending.Load() {
				count, err := reader.fetch()
				if err != nil {
					failures <- err
					return
				}
				received.Add(count)
			}
		}()
	}
	meter := startMeter(options.pids)
	if err := paced(options, stamped, &expected); err != nil {
		failures <- err
	}
	wanted := expected.Load() * int64(options.readers)
	for end := time.Now().Add(settleSeconds * time.Second); received.Load() < wanted; {
		if time.Now().After(end) || len(failures) > 0 {
			failures <- fmt.Errorf("%d bytes of %d arrived", received.Load(), wanted)
			break
		}
		time.Sleep(time.Millisecond)
	}
	result := meter.result(nil)
	ending.Store(true)
	group.Wait()
	result.Requests, result.Bytes = int64(options.requests), received.Load()
	select {
	case err := <-failures:
		return result, err
	default:
		return result, nil
	}
}

// paced sends a request each 1/rate seconds, whether or not earlier ones were acked.
func paced(options *Options, stamped *Stamped, sentBytes *atomic.Int64) error {
	groups := options.byLeader()
	connections := make([]net.Conn, options.partitions) // those of one leader share one
	acked := make(chan error, len(groups))
	for _, partitions := range groups {
		connection, err := options.dial(options.leader(partitions[0]))
		if err != nil {
			return err
		}
		defer connection.Close()
		expected := 0
		for _, partition := range partitions {
			connections[partition] = connection
			expected += (options.requests - partition + options.partitions - 1) / options.partitions
		}
		go func() { acked <- options.readAcks(connection, expected) }()
	}
	batches := make([][]byte, len(options.templates))
	for index, template := range options.templates {
		batches[index] = append([]byte(nil), template...)
	}
	interval := time.Second / time.Duration(options.rate)
	started := time.Now()
	var buffer []byte
	for index := 0; index < options.requests; index++ {
		time.Sleep(time.Until(started.Add(time.Duration(index) * interval)))
		batch := batches[index%len(batches)]
		if stamped != nil {
			stamped.write(batch)
		}
		partition := index % options.partitions
		frame := produceFrame(options, partition, batch)
		buffer = frame.appendTo(buffer[:0])
		if _, err := connections[partition].Write(buffer); err != nil {
			return err
		}
		sentBytes.Add(int64(len(batch)))
	}
	for range groups {
		if err := <-acked; err != nil {
			return err
		}
	}
	return nil
}

func (options *Options) readAcks(connection net.Conn, count int) error {
	replies := bufio.NewReaderSize(connection, replyBufferBytes)
	scratch := make([]byte, 4096)
	for range count {
		if err := options.readAck(replies, scratch); err != nil {
			return err
		}
	}
	return nil
}
