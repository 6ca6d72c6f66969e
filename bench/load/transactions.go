package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Where a batch says of which producer it is, and whether it is part of a transaction.
const (
	attributesAt     = 21
	lastDeltaAt      = 23
	producerIDAt     = 43
	producerEpochAt  = 51
	sequenceAt       = 53
	transactionalBit = 0x10
)

// Producer is one that numbers its records, on a connection of its own, as clients do. With an id it
// writes in transactions of generation 2: partitions are added by the first batch to each, and
// every end brings a new epoch.
type Producer struct {
	options         *Options
	connection      *net.TCPConn
	replies         *bufio.Reader
	scratch         []byte
	transactionalID string // empty: none
	id              uint64
	epoch           uint16
	sequences       []uint32
	batches         [][]byte // templates of its own, which it numbers in place
	next            int
	unacked         int
	endedAt         time.Time // when the transaction before this one was ended
	endedBytes      int64     // acked, and committed where there are transactions
	openBytes       int64
	commits         []time.Duration
	beginnings      []time.Duration
}

func newProducer(options *Options, transactionalID string, first int) (*Producer, error) {
	connection, err := dial(options.address)
	if err != nil {
		return nil, err
	}
	producer := &Producer{
		options: options, connection: connection, transactionalID: transactionalID, next: first,
		replies: bufio.NewReaderSize(connection, replyBufferBytes), scratch: make([]byte, 4096),
	}
	for _, template := range options.templates {
		producer.batches = append(producer.batches, append([]byte(nil), template...))
	}
	producer.id, producer.epoch, err = producer.identity()
	producer.sequences = make([]uint32, options.partitions)
	return producer, err
}

// number writes producer, epoch and sequence into a batch, and the checksum over them.
func (producer *Producer) number(batch []byte, partition int) {
	if producer.transactionalID != "" {
		batch[attributesAt+1] |= transactionalBit
	}
	binary.BigEndian.PutUint64(batch[producerIDAt:], producer.id)
	binary.BigEndian.PutUint16(batch[producerEpochAt:], producer.epoch)
	binary.BigEndian.PutUint32(batch[sequenceAt:], producer.sequences[partition])
	producer.sequences[partition] += binary.BigEndian.Uint32(batch[lastDeltaAt:]) + 1
	binary.BigEndian.PutUint32(batch[crcAt:], crc32.Checksum(batch[crcFrom:], castagnoli))
}

func (producer *Producer) send() error {
	batch := producer.batches[producer.next%len(producer.batches)]
	partition := producer.next % producer.options.partitions
	producer.next++
	producer.number(batch, partition)
	frame := produceFrameOf(producer.options, producer.transactionalID, partition, batch)
	producer.openBytes += int64(len(batch))
	producer.unacked++
	buffers := net.Buffers{frame.head, frame.batch, produceTail}
	_, err := buffers.WriteTo(producer.connection)
	return err
}

func (producer *Producer) awaitAck() error {
	err := producer.options.readAck(producer.replies, producer.scratch)
	producer.unacked--
	return err
}

// begin sends the first batch of a transaction alone, and again while the markers of the one before
// are on their way: what came behind it would be out of order.
func (producer *Producer) begin() error {
	for {
		if err := producer.send(); err != nil {
			return err
		}
		err := producer.awaitAck()
		var refused *Refused
		if errors.As(err, &refused) && refused.code == concurrentTransactions {
			producer.unsend()
			time.Sleep(coordinatorPause)
			continue
		}
		if err == nil && !producer.endedAt.IsZero() {
			producer.beginnings = append(producer.beginnings, time.Since(producer.endedAt))
		}
		return err
	}
}

// unsend takes the first batch of a transaction back.
func (producer *Producer) unsend() {
	producer.next--
	producer.openBytes = 0
	clear(producer.sequences)
}

// sendNext waits for room among the requests in flight, and sends.
func (producer *Producer) sendNext() error {
	if producer.transactionalID != "" && producer.openBytes == 0 {
		return producer.begin()
	}
	for producer.unacked >= producer.options.inFlight {
		if err := producer.awaitAck(); err != nil {
			return err
		}
	}
	return producer.send()
}

// run sends so long as there is something left, with an end of the transaction each interval.
func (producer *Producer) run(left *atomic.Int64) error {
	pause := time.Duration(0)
	if producer.options.rate > 0 {
		pause = time.Second * time.Duration(producer.options.connections) / time.Duration(producer.options.rate)
	}
	due := time.Now()
	for left.Load() > 0 {
		ends := time.Now().Add(producer.options.commitEvery)
		for left.Add(-1) >= 0 {
			if pause > 0 {
				due = due.Add(pause)
				time.Sleep(time.Until(due))
			}
			if err := producer.sendNext(); err != nil {
				return err
			}
			if producer.transactionalID != "" && time.Now().After(ends) {
				break
			}
		}
		if err := producer.end(); err != nil {
			return err
		}
	}
	return nil
}

// end waits for all acks, as clients do before they commit, and then for the commit.
func (producer *Producer) end() error {
	for producer.unacked > 0 {
		if err := producer.awaitAck(); err != nil {
			return err
		}
	}
	if producer.transactionalID != "" && producer.openBytes > 0 {
		started := time.Now()
		if err := producer.commit(); err != nil {
			return err
		}
		producer.commits = append(producer.commits, time.Since(started))
		producer.endedAt = started
	}
	producer.endedBytes += producer.openBytes
	producer.openBytes = 0
	return nil
}

func (producer *Producer) commit() error {
	request := header(endTxnKey, endTxnVersion)
	request = appendCompact(request, producer.transactionalID)
	request = binary.BigEndian.AppendUint64(request, producer.id)
	request = binary.BigEndian.AppendUint16(request, producer.epoch)
	request = append(request, 1, 0) // committed; tags
	return producer.trade(request)
}

func (producer *Producer) identity() (uint64, uint16, error) {
	request := header(initProducerIDKey, initProducerIDVersion)
	if producer.transactionalID == "" {
		request = append(request, 0)
	} else {
		request = appendCompact(request, producer.transactionalID)
	}
	request = binary.BigEndian.AppendUint32(request, transactionTimeoutMs)
	request = binary.BigEndian.AppendUint64(request, 1<<64-1)
	request = binary.BigEndian.AppendUint16(request, 1<<16-1)
	request = append(request, 0)
	err := producer.trade(request)
	return producer.id, producer.epoch, err
}

// trade asks for another identity; both requests that bring one are answered alike.
func (producer *Producer) trade(request []byte) error {
	binary.BigEndian.PutUint32(request, uint32(len(request)-4))
	for deadline := time.Now().Add(coordinatorSecondsMax * time.Second); ; {
		if _, err := producer.connection.Write(request); err != nil {
			return err
		}
		if _, err := io.ReadFull(producer.replies, producer.scratch[:4]); err != nil {
			return err
		}
		size := binary.BigEndian.Uint32(producer.scratch)
		reply := producer.scratch[:size]
		if _, err := io.ReadFull(producer.replies, reply); err != nil {
			return err
		}
		const codeAt = 4 + 1 + 4 // correlation id, tags, throttle time
		code := binary.BigEndian.Uint16(reply[codeAt:])
		if code == 0 {
			producer.id = binary.BigEndian.Uint64(reply[codeAt+2:])
			producer.epoch = binary.BigEndian.Uint16(reply[codeAt+10:])
			clear(producer.sequences)
			return nil
		}
		if !comesAgain[code] || time.Now().After(deadline) {
			return fmt.Errorf("the coordinator of %q answered with error %d", producer.transactionalID, code)
		}
		time.Sleep(coordinatorPause)
	}
}

func appendCompact(buffer []byte, text string) []byte {
	return append(append(buffer, uvarint(len(text)+1)...), text...)
}

// idempotent produces with sequences: in transactions, where there is an interval between commits.
// The quantiles are of commits.
func idempotent(options *Options) (Result, error) {
	producers := make([]*Producer, options.connections)
	for index := range producers {
		id := ""
		if options.commitEvery > 0 {
			id = fmt.Sprintf("load-%d", index)
		}
		var err error
		if producers[index], err = newProducer(options, id, index*7); err != nil {
			return Result{}, err
		}
		defer producers[index].connection.Close()
	}
	var left atomic.Int64
	left.Store(int64(options.requests))
	meter := startMeter(options.pids)
	err := atOnce(len(producers), func(index int) error { return producers[index].run(&left) })
	var commits, beginnings []time.Duration
	var bytes int64
	for _, producer := range producers {
		commits = append(commits, producer.commits...)
		beginnings = append(beginnings, producer.beginnings...)
		bytes += producer.endedBytes
	}
	result := meter.result(commits)
	var begun Result
	quantiles(&begun, beginnings)
	result.BegunP50, result.BegunP99 = begun.P50, begun.P99
	result.Requests, result.Commits, result.Bytes = int64(options.requests), int64(len(commits)), bytes
	return result, err
}

// transactionalIDs has each of `requests` ids commit one transaction of one batch. The quantiles are
// of the three steps of an id together.
func transactionalIDs(options *Options) (Result, error) {
	var next atomic.Int64
	latencies := make([][]time.Duration, options.connections)
	meter := startMeter(options.pids)
	err := atOnce(options.connections, func(index int) error {
		producer, err := newProducer(options, fmt.Sprintf("first-%d", index), index)
		if err != nil {
			return err
		}
		defer producer.connection.Close()
		for {
			number := int(next.Add(1)) - 1
			if number >= options.requests {
				return nil
			}
			started := time.Now()
			producer.transactionalID = fmt.Sprintf("service-%d", number)
			producer.next = number
			if _, _, err := producer.identity(); err != nil {
				return err
			}
			if err := producer.begin(); err != nil {
				return err
			}
			if err := producer.end(); err != nil {
				return err
			}
			latencies[index] = append(latencies[index], time.Since(started))
		}
	})
	var all []time.Duration
	for _, some := range latencies {
		all = append(all, some...)
	}
	result := meter.result(all)
	result.Requests, result.Commits = int64(len(all)), int64(len(all))
	return result, err
}

// atOnce runs so many at a time and waits for all; the first failure is told.
func atOnce(count int, run func(index int) error) error {
	failures := make(chan error, count)
	var group sync.WaitGroup
	for index := range count {
		group.Add(1)
		go func() {
			defer group.Done()
			if err := run(index); err != nil {
				failures <- err
			}
		}()
	}
	group.Wait()
	select {
	case err := <-failures:
		return err
	default:
		return nil
	}
}
