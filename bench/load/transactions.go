package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"strconv"
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

const repeatsMax = 10_000 // of a transaction: then something is wrong

// Line is a connection to one node, with requests in flight.
type Line struct {
	connection net.Conn
	replies    *bufio.Reader
	unacked    []Sent // the oldest first
}

// Sent is a batch in flight, so that it can be sent again.
type Sent struct {
	batch     []byte // a template, which has been numbered for others since
	partition int
	sequence  uint32
}

// Producer is one that numbers its records, on connections of its own, as clients do: one to each
// node that it needs. With an id it writes in transactions of generation 2: partitions are added by
// the first batch to each, and every end brings a new epoch.
type Producer struct {
	options         *Options
	lines           map[string]*Line // by address
	leaders         []*Line          // of each partition
	coordinator     *Line
	scratch         []byte
	transactionalID string // empty: none
	id              uint64
	epoch           uint16
	sequences       []uint32
	batches         [][]byte // templates of its own, which it numbers in place
	next            int
	endedAt         time.Time // when the transaction before this one was ended
	endedBytes      int64     // acked, and committed where there are transactions
	openBytes       int64
	commits         []time.Duration
	beginnings      []time.Duration
	repeats         int // batches sent again in this transaction
}

func newProducer(options *Options, transactionalID string, first int) (*Producer, error) {
	producer := &Producer{
		options: options, transactionalID: transactionalID, next: first,
		lines: map[string]*Line{}, scratch: make([]byte, 4096),
	}
	err := producer.connect()
	if err != nil {
		producer.close()
		return nil, err
	}
	for _, template := range options.templates {
		producer.batches = append(producer.batches, append([]byte(nil), template...))
	}
	producer.id, producer.epoch, err = producer.identity()
	producer.sequences = make([]uint32, options.partitions)
	return producer, err
}

// connect has a connection to each leader, and to the coordinator.
func (producer *Producer) connect() error {
	options := producer.options
	for partition := range options.partitions {
		leader, err := producer.line(options.leader(partition))
		if err != nil {
			return err
		}
		producer.leaders = append(producer.leaders, leader)
	}
	address := options.address
	if producer.transactionalID != "" && len(options.leaders) > 0 {
		asked, err := producer.line(address)
		if err != nil {
			return err
		}
		if address, err = producer.coordinatorAddress(asked); err != nil {
			return err
		}
	}
	var err error
	producer.coordinator, err = producer.line(address)
	return err
}

func (producer *Producer) line(address string) (*Line, error) {
	if line := producer.lines[address]; line != nil {
		return line, nil
	}
	connection, err := producer.options.dial(address)
	if err != nil {
		return nil, err
	}
	line := &Line{connection: connection, replies: bufio.NewReaderSize(connection, replyBufferBytes)}
	producer.lines[address] = line
	return line, nil
}

func (producer *Producer) close() {
	for _, line := range producer.lines {
		line.connection.Close()
	}
}

// number writes producer, epoch and sequence into a batch, and the checksum over them.
func (producer *Producer) number(batch []byte, sequence uint32) {
	if producer.transactionalID != "" {
		batch[attributesAt+1] |= transactionalBit
	}
	binary.BigEndian.PutUint64(batch[producerIDAt:], producer.id)
	binary.BigEndian.PutUint16(batch[producerEpochAt:], producer.epoch)
	binary.BigEndian.PutUint32(batch[sequenceAt:], sequence)
	binary.BigEndian.PutUint32(batch[crcAt:], crc32.Checksum(batch[crcFrom:], castagnoli))
}

func (producer *Producer) send() error {
	batch := producer.batches[producer.next%len(producer.batches)]
	partition := producer.next % producer.options.partitions
	producer.next++
	sent := Sent{batch: batch, partition: partition, sequence: producer.sequences[partition]}
	producer.sequences[partition] += binary.BigEndian.Uint32(batch[lastDeltaAt:]) + 1
	producer.openBytes += int64(len(batch))
	return producer.sendOver(producer.leaders[partition], sent)
}

func (producer *Producer) sendOver(line *Line, sent Sent) error {
	producer.number(sent.batch, sent.sequence)
	frame := produceFrameOf(producer.options, producer.transactionalID, sent.partition, sent.batch)
	line.unacked = append(line.unacked, sent)
	buffers := net.Buffers{frame.head, frame.batch, produceTail}
	_, err := buffers.WriteTo(line.connection)
	return err
}

// awaitReply takes the oldest batch in flight off the line, with what the broker said of it.
func (producer *Producer) awaitReply(line *Line) (Sent, error) {
	err := producer.options.readAck(line.replies, producer.scratch)
	sent := line.unacked[0]
	line.unacked = line.unacked[1:]
	return sent, err
}

// awaitAck waits for the oldest batch in flight, and sends it again where clients do. A coordinator
// that is adding a partition of another leader to the transaction may refuse this one for the time
// being, and batches behind it are out of order then.
func (producer *Producer) awaitAck(line *Line) error {
	sent, err := producer.awaitReply(line)
	var refused *Refused
	if !errors.As(err, &refused) || producer.transactionalID == "" {
		return err
	}
	if refused.code != concurrentTransactions && (refused.code != outOfOrder || producer.repeats == 0) {
		return err
	}
	if producer.repeats++; producer.repeats > repeatsMax {
		return err
	}
	if refused.code == concurrentTransactions {
		time.Sleep(coordinatorPause)
	}
	return producer.sendOver(line, sent)
}

// following is where the next batch goes.
func (producer *Producer) following() *Line {
	return producer.leaders[producer.next%producer.options.partitions]
}

// begin sends the first batch of a transaction alone, and again while the markers of the one before
// are on their way: what came behind it would be out of order.
func (producer *Producer) begin() error {
	line := producer.following()
	for {
		if err := producer.send(); err != nil {
			return err
		}
		_, err := producer.awaitReply(line)
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

// sendNext waits for room among the requests in flight to that node, and sends.
func (producer *Producer) sendNext() error {
	if producer.transactionalID != "" && producer.openBytes == 0 {
		return producer.begin()
	}
	line := producer.following()
	for len(line.unacked) >= producer.options.inFlight {
		if err := producer.awaitAck(line); err != nil {
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
	for _, line := range producer.lines {
		for len(line.unacked) > 0 {
			if err := producer.awaitAck(line); err != nil {
				return err
			}
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
	producer.openBytes, producer.repeats = 0, 0
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
		reply, err := producer.ask(producer.coordinator, request)
		if err != nil {
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

// ask sends one request over a connection with none in flight.
func (producer *Producer) ask(line *Line, request []byte) ([]byte, error) {
	if _, err := line.connection.Write(request); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(line.replies, producer.scratch[:4]); err != nil {
		return nil, err
	}
	reply := producer.scratch[:binary.BigEndian.Uint32(producer.scratch)]
	_, err := io.ReadFull(line.replies, reply)
	return reply, err
}

// coordinatorAddress is where the coordinator of this producer's id listens.
func (producer *Producer) coordinatorAddress(asked *Line) (string, error) {
	request := header(findCoordinatorKey, findCoordinatorVersion)
	request = append(request, 1, 2) // of a transactional id; one of them
	request = appendCompact(request, producer.transactionalID)
	request = append(request, 0)
	binary.BigEndian.PutUint32(request, uint32(len(request)-4))
	for deadline := time.Now().Add(coordinatorSecondsMax * time.Second); ; {
		reply, err := producer.ask(asked, request)
		if err != nil {
			return "", err
		}
		at := 4 + 1 + 4 + 1 + 1 + len(producer.transactionalID) + 4 // up to the host's length
		end := at + int(reply[at])                                  // one more than the length
		host := string(reply[at+1 : end])
		port := binary.BigEndian.Uint32(reply[end:])
		code := binary.BigEndian.Uint16(reply[end+4:])
		if code == 0 {
			return net.JoinHostPort(host, strconv.Itoa(int(port))), nil
		}
		if !comesAgain[code] || time.Now().After(deadline) {
			return "", fmt.Errorf("no coordinator of %q: error %d", producer.transactionalID, code)
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
		defer producers[index].close()
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
		defer producer.close()
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
