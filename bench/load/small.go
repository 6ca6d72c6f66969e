package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// roundTrips sends one batch after the other at a fixed rate, over one connection with one request in
// flight. When an ack is late the next requests are too: what the broker did not do meanwhile shows
// once, as the longest round trip.
func roundTrips(options *Options) (Result, error) {
	connection, err := options.dial(options.address)
	if err != nil {
		return Result{}, err
	}
	defer connection.Close()
	replies := bufio.NewReaderSize(connection, replyBufferBytes)
	scratch := make([]byte, 4096)
	interval := time.Second / time.Duration(options.rate)
	var buffer []byte
	var latencies []time.Duration
	meter := startMeter(options.pids)
	ends := meter.started.Add(time.Duration(options.requests) * interval)
	for due := meter.started; due.Before(ends); due = due.Add(interval) {
		if late := time.Since(due); late > interval {
			due = due.Add(late / interval * interval)
		}
		time.Sleep(time.Until(due))
		batch := options.templates[len(latencies)%len(options.templates)]
		buffer = produceFrame(options, len(latencies)%options.partitions, batch).appendTo(buffer[:0])
		started := time.Now()
		if _, err := connection.Write(buffer); err != nil {
			return Result{}, err
		}
		if err := options.readAck(replies, scratch); err != nil {
			return Result{}, err
		}
		latencies = append(latencies, time.Since(started))
	}
	count := int64(len(latencies))
	result := meter.result(latencies)
	result.Requests = count
	return result, nil
}

// smallFetch reads the first batches of the first partition, over and over.
func smallFetch(options *Options) (Result, error) {
	request := fetchRequest(options, map[int]int64{}, []int{0}, 0, 1)
	var left, received atomic.Int64
	left.Store(int64(options.requests))
	connections := make([]io.ReadWriteCloser, options.connections)
	for index := range connections {
		var err error
		if connections[index], err = options.dial(options.address); err != nil {
			return Result{}, err
		}
		defer connections[index].Close()
	}
	meter := startMeter(options.pids)
	err := atOnce(options.connections, func(index int) error {
		connection := connections[index]
		replies := bufio.NewReaderSize(connection, replyBufferBytes)
		reader := &Reader{options: options, offsets: map[int]int64{}, ends: map[int]int64{}}
		scratch := make([]byte, receiveBytes)
		room, unanswered := options.inFlight, 0
		var gathered []byte
		for {
			gathered = gathered[:0]
			for ; room > 0 && left.Add(-1) >= 0; room-- {
				gathered = append(gathered, request...)
				unanswered++
			}
			if _, err := connection.Write(gathered); err != nil {
				return err
			}
			if unanswered == 0 {
				return nil
			}
			if _, err := io.ReadFull(replies, scratch[:4]); err != nil {
				return err
			}
			size := int(binary.BigEndian.Uint32(scratch))
			if size > len(scratch) {
				return fmt.Errorf("a Fetch reply of %d bytes", size)
			}
			if _, err := io.ReadFull(replies, scratch[:size]); err != nil {
				return err
			}
			count, err := reader.take(scratch[:size])
			if err != nil {
				return err
			}
			if count == 0 {
				return fmt.Errorf("a fetch brought nothing")
			}
			received.Add(count)
			room++
			unanswered--
		}
	})
	result := meter.result(nil)
	result.Requests, result.Bytes = int64(options.requests), received.Load()
	return result, err
}
