package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

const partitionBytesMax = 1 << 20 // as clients ask by default

// Reader fetches some partitions of one leader over one connection and looks at batch headers alone.
type Reader struct {
	connection net.Conn
	options    *Options
	order      []int
	offsets    map[int]int64
	ends       map[int]int64 // high watermarks as told last
	waitMs     int
	reply      []byte
	seen       func(batch []byte) // nil, or shown every batch
}

func newReader(options *Options, order []int, waitMs int) (*Reader, error) {
	connection, err := options.dial(options.leader(order[0]))
	if err != nil {
		return nil, err
	}
	return &Reader{
		connection: connection, options: options, order: order, waitMs: waitMs,
		offsets: map[int]int64{}, ends: map[int]int64{}, reply: make([]byte, receiveBytes),
	}, nil
}

// fetch asks once and moves the offsets on; it returns how many bytes of batches came.
func (reader *Reader) fetch() (int64, error) {
	request := fetchRequest(reader.options, reader.offsets, reader.order, reader.waitMs, partitionBytesMax)
	if _, err := reader.connection.Write(request); err != nil {
		return 0, err
	}
	if _, err := io.ReadFull(reader.connection, reader.reply[:4]); err != nil {
		return 0, err
	}
	size := int(binary.BigEndian.Uint32(reader.reply))
	if size > len(reader.reply) {
		reader.reply = make([]byte, size)
	}
	if _, err := io.ReadFull(reader.connection, reader.reply[:size]); err != nil {
		return 0, err
	}
	return reader.take(reader.reply[:size])
}

func (reader *Reader) take(reply []byte) (int64, error) {
	at := 4 + 1 + 4 // correlation id, tags, throttle time
	if code := binary.BigEndian.Uint16(reply[at:]); code != 0 {
		return 0, fmt.Errorf("the broker refused a fetch with error %d", code)
	}
	at += 2 + 4 // error, session id
	topics, width := binary.Uvarint(reply[at:])
	at += width
	var received int64
	for ; topics > 1; topics-- {
		if reader.options.fetchVersion >= topicIDsFrom {
			at += 16
		} else {
			at += 1 + len(reader.options.topic)
		}
		partitions, width := binary.Uvarint(reply[at:])
		at += width
		for ; partitions > 1; partitions-- {
			partition := int(binary.BigEndian.Uint32(reply[at:]))
			if code := binary.BigEndian.Uint16(reply[at+4:]); code != 0 {
				return 0, fmt.Errorf("partition %d answered with error %d", partition, code)
			}
			reader.ends[partition] = int64(binary.BigEndian.Uint64(reply[at+6:]))
			at += 4 + 2 + 8 + 8 + 8 // index, error, high watermark, stable and start offset
			if aborted, width := binary.Uvarint(reply[at:]); aborted > 1 {
				return 0, errors.New("aborted transactions in a bench topic")
			} else {
				at += width
			}
			at += 4 // preferred replica
			size, width := binary.Uvarint(reply[at:])
			at += width
			if size > 1 {
				records := reply[at : at+int(size)-1]
				at += len(records)
				received += int64(len(records))
				reader.passOver(partition, records)
			}
			at = skipTags(reply, at)
		}
		at = skipTags(reply, at)
	}
	return received, nil
}

func (reader *Reader) passOver(partition int, records []byte) {
	for len(records) >= 61 {
		size := 12 + int(binary.BigEndian.Uint32(records[8:]))
		if size > len(records) {
			return
		}
		base := int64(binary.BigEndian.Uint64(records))
		lastDelta := int64(binary.BigEndian.Uint32(records[23:]))
		if base >= reader.offsets[partition] && reader.seen != nil {
			reader.seen(records[:size])
		}
		reader.offsets[partition] = base + lastDelta + 1
		records = records[size:]
	}
}

func (reader *Reader) atEnd() bool {
	for _, partition := range reader.order {
		if reader.offsets[partition] < reader.ends[partition] || reader.ends[partition] == 0 {
			return false
		}
	}
	return true
}

func skipTags(reply []byte, at int) int {
	count, width := binary.Uvarint(reply[at:])
	at += width
	for ; count > 0; count-- {
		_, width = binary.Uvarint(reply[at:])
		at += width
		size, width := binary.Uvarint(reply[at:])
		at += width + int(size)
	}
	return at
}

// shares splits the partitions of each leader into as many parts, or fewer where there are not enough.
func (options *Options) shares(parts int) [][]int {
	var found [][]int
	for _, partitions := range options.byLeader() {
		split := make([][]int, min(parts, len(partitions)))
		for index, partition := range partitions {
			split[index%len(split)] = append(split[index%len(split)], partition)
		}
		found = append(found, split...)
	}
	return found
}

// fetchAll reads all partitions from the start, over and over, split over the connections.
func fetchAll(options *Options) (Result, error) {
	var readers []*Reader
	for _, order := range options.shares(options.connections) {
		reader, err := newReader(options, order, 0)
		if err != nil {
			return Result{}, err
		}
		defer reader.connection.Close()
		readers = append(readers, reader)
	}
	var requests, received atomic.Int64
	failures := make(chan error, len(readers))
	var group sync.WaitGroup
	meter := startMeter(options.pids)
	for _, reader := range readers {
		group.Add(1)
		go func() {
			defer group.Done()
			for pass := 0; pass < options.passes; pass++ {
				clear(reader.offsets)
				clear(reader.ends)
				for !reader.atEnd() {
					count, err := reader.fetch()
					if err != nil {
						failures <- err
						return
					}
					requests.Add(1)
					received.Add(count)
				}
			}
		}()
	}
	group.Wait()
	result := meter.result(nil)
	result.Requests, result.Bytes = requests.Load(), received.Load()
	select {
	case err := <-failures:
		return result, err
	default:
		return result, nil
	}
}
