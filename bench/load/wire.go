package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// The requests there are. Produce and Fetch are of the versions in the options; transactions are of
// generation 2.
const (
	produceKey    = 0
	fetchKey      = 1
	topicIDsFrom  = 13 // of both: before it a topic goes by its name
	replicaIDUpTo = 14 // of Fetch: in each request, and not only in a follower's

	findCoordinatorKey     = 10
	findCoordinatorVersion = 4
	initProducerIDKey      = 22
	initProducerIDVersion  = 5
	endTxnKey              = 26
	endTxnVersion          = 5

	transactionTimeoutMs  = 60_000
	coordinatorSecondsMax = 60
	coordinatorPause      = time.Millisecond

	concurrentTransactions = 51
	outOfOrder             = 45

	replyBufferBytes = 64 << 10
	receiveBytes     = 256 << 10
)

// Errors of a coordinator after which it is asked again: it is being made or loaded, or the markers
// of the transaction before are on their way.
var comesAgain = map[uint16]bool{14: true, 15: true, 16: true, concurrentTransactions: true}

func uvarint(value int) []byte {
	return binary.AppendUvarint(nil, uint64(value))
}

// header is a request header v2 after a place for the size.
func header(key, version int) []byte {
	head := make([]byte, 4, 64)
	head = binary.BigEndian.AppendUint16(head, uint16(key))
	head = binary.BigEndian.AppendUint16(head, uint16(version))
	head = binary.BigEndian.AppendUint32(head, 0) // correlation id: replies come in order
	head = binary.BigEndian.AppendUint16(head, 4)
	head = append(head, "load"...)
	return append(head, 0)
}

// Frame is a Produce request for one batch: head, batch, tail.
type Frame struct {
	head  []byte
	batch []byte
}

// A topic's and the request's tagged fields, after the partition's own.
var produceTail = []byte{0, 0, 0}

// appendTopic names the topic as the version of a request does.
func (options *Options) appendTopic(buffer []byte, version int) []byte {
	if version >= topicIDsFrom {
		return append(buffer, options.topicID...)
	}
	return appendCompact(buffer, options.topic)
}

func produceFrame(options *Options, partition int, batch []byte) Frame {
	return produceFrameOf(options, "", partition, batch)
}

// produceFrameOf is part of a transaction, where there is an id of one.
func produceFrameOf(options *Options, transactionalID string, partition int, batch []byte) Frame {
	head := header(produceKey, options.produceVersion)
	if transactionalID == "" {
		head = append(head, 0)
	} else {
		head = appendCompact(head, transactionalID)
	}
	head = binary.BigEndian.AppendUint16(head, uint16(options.acks))
	head = binary.BigEndian.AppendUint32(head, 30_000)
	head = append(head, 2)
	head = options.appendTopic(head, options.produceVersion)
	head = append(head, 2)
	head = binary.BigEndian.AppendUint32(head, uint32(partition))
	head = append(head, uvarint(len(batch)+1)...)
	size := len(head) - 4 + len(batch) + len(produceTail)
	binary.BigEndian.PutUint32(head, uint32(size))
	return Frame{head: head, batch: batch}
}

func (frame Frame) appendTo(buffer []byte) []byte {
	buffer = append(buffer, frame.head...)
	buffer = append(buffer, frame.batch...)
	return append(buffer, produceTail...)
}

// Refused is what a broker said of a batch that it did not take.
type Refused struct {
	code  uint16
	reply string
}

func (refused *Refused) Error() string {
	return fmt.Sprintf("the broker refused a batch with error %d: %q", refused.code, refused.reply)
}

// readAck reads one Produce reply; anything but success is an error.
func (options *Options) readAck(replies *bufio.Reader, scratch []byte) error {
	codeAt := 4 + 1 + 1 + 16 + 1 + 4 // correlation id, tags, array, topic id, array, index
	if options.produceVersion < topicIDsFrom {
		codeAt += 1 + len(options.topic) - 16
	}
	if _, err := io.ReadFull(replies, scratch[:4]); err != nil {
		return err
	}
	size := int(binary.BigEndian.Uint32(scratch))
	if size < codeAt+2 || size > len(scratch) {
		return fmt.Errorf("a Produce reply of %d bytes", size)
	}
	if _, err := io.ReadFull(replies, scratch[:size]); err != nil {
		return err
	}
	if code := binary.BigEndian.Uint16(scratch[codeAt:]); code != 0 {
		return &Refused{code: code, reply: string(scratch[:size])}
	}
	return nil
}

// fetchRequest asks for all partitions of `offsets`, without a session.
func fetchRequest(options *Options, offsets map[int]int64, order []int, waitMs, partitionBytes int) []byte {
	request := header(fetchKey, options.fetchVersion)
	if options.fetchVersion <= replicaIDUpTo {
		request = binary.BigEndian.AppendUint32(request, 1<<32-1) // a client is no replica
	}
	request = binary.BigEndian.AppendUint32(request, uint32(waitMs))
	request = binary.BigEndian.AppendUint32(request, 1) // bytes at least
	request = binary.BigEndian.AppendUint32(request, 50<<20)
	request = append(request, 0)                              // read uncommitted
	request = binary.BigEndian.AppendUint32(request, 0)       // no session,
	request = binary.BigEndian.AppendUint32(request, 1<<32-1) // and none wanted
	request = append(request, 2)
	request = options.appendTopic(request, options.fetchVersion)
	request = append(request, uvarint(len(order)+1)...)
	for _, partition := range order {
		request = binary.BigEndian.AppendUint32(request, uint32(partition))
		request = binary.BigEndian.AppendUint32(request, 1<<32-1) // leader epoch unknown
		request = binary.BigEndian.AppendUint64(request, uint64(offsets[partition]))
		request = binary.BigEndian.AppendUint32(request, 1<<32-1) // last fetched epoch unknown
		request = binary.BigEndian.AppendUint64(request, 1<<64-1) // a client has no start offset
		request = binary.BigEndian.AppendUint32(request, uint32(partitionBytes))
		request = append(request, 0)
	}
	request = append(request, 0) // the topic's tagged fields
	request = append(request, 1) // no topics to forget
	request = append(request, 1) // no rack
	request = append(request, 0)
	binary.BigEndian.PutUint32(request, uint32(len(request)-4))
	return request
}
