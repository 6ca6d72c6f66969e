// Writes one record at a time to one partition, with franz-go and its defaults, until standard input ends.
// Arguments: addresses of brokers, topic, partition. rig/failover/program_writers.py says what it prints.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const pause = 2 * time.Millisecond

func main() {
	partition, err := strconv.Atoi(os.Args[3])
	if err != nil {
		panic(err)
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(os.Args[1], ",")...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0),
	)
	if err != nil {
		panic(err)
	}
	over := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(over)
	}()
	for {
		select {
		case <-over:
			client.Close()
			return
		case <-time.After(pause):
		}
		record := &kgo.Record{Topic: os.Args[2], Partition: int32(partition), Value: []byte("franz-go")}
		begun := time.Now()
		failure := "-"
		if err := client.ProduceSync(context.Background(), record).FirstErr(); err != nil {
			failure = strings.ReplaceAll(err.Error(), "\n", " ")
		}
		fmt.Printf("%d %d %s\n", begun.UnixMicro(), time.Now().UnixMicro(), failure)
	}
}
