// Load for a Kafka-protocol broker: prebuilt batches in, raw bytes out, nothing decoded.
//
// A broker is measured best by a client that costs next to nothing, so this one builds its frames by
// hand and speaks through plain sockets. Batches come from a file of templates (see bench/loading.py).
// One JSON object on standard output tells what happened; trouble goes to standard error.
package main

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Options is what every kind of load is told; see bench/loading.py, which is its only caller.
type Options struct {
	address string
	topicID []byte
	topic   string

	produceVersion int
	fetchVersion   int

	partitions  int
	acks        int
	connections int
	inFlight    int
	templates   [][]byte
	requests    int
	lasting     time.Duration // in place of a number of requests; 0: until all are sent
	passes      int
	rate        int
	readers     int
	commitEvery time.Duration
	leaders     []string // of each partition; empty: all are led by the broker at the address
	pids        []int
	way         string // how strangers behave
	security    Security
}

// Result is the one line of output. CPU is that of all brokers, over the measured time alone.
type Result struct {
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpu_seconds"`
	Requests   int64   `json:"requests"`
	Bytes      int64   `json:"bytes"` // of batches as they stand on the wire
	P50        float64 `json:"p50_ms"`
	P99        float64 `json:"p99_ms"`
	P999       float64 `json:"p999_ms"`
	Max        float64 `json:"max_ms"`
	Commits    int64   `json:"commits"`
	BegunP50   float64 `json:"begun_p50_ms"` // from a commit to the first ack of the next transaction
	BegunP99   float64 `json:"begun_p99_ms"`
	Cipher     string  `json:"cipher"` // of TLS; empty: plain text
}

var kinds = map[string]func(*Options) (Result, error){
	"produce": produce,
	"fetch":   fetchAll,
	"tail":    tail,
	"latency": latency,

	"idempotent":        idempotent,
	"transactional-ids": transactionalIDs,

	"small-fetch":   smallFetch,
	"round-trips":   roundTrips,
	"logins":        logins,
	"failed-logins": failedLogins,
	"strangers":     strangers,
}

func main() {
	options, kind, err := parse()
	if err == nil {
		var result Result
		if result, err = kinds[kind](options); err == nil {
			result.Cipher = options.security.cipher.Load().(string)
			err = json.NewEncoder(os.Stdout).Encode(result)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func parse() (*Options, string, error) {
	options := &Options{}
	kind := flag.String("kind", "produce", "one of `kinds`")
	topicID := flag.String("topic-id", "", "hexadecimal")
	templates := flag.String("templates", "", "file of batches, each after its size as int32")
	flag.StringVar(&options.address, "address", "", "host:port")
	flag.StringVar(&options.topic, "topic", "", "its name, for versions before topic ids")
	flag.IntVar(&options.produceVersion, "produce-version", topicIDsFrom, "9 to 13")
	flag.IntVar(&options.fetchVersion, "fetch-version", 17, "12 to 17")
	flag.IntVar(&options.partitions, "partitions", 1, "of the topic")
	flag.IntVar(&options.acks, "acks", 1, "1, or -1 for all")
	flag.IntVar(&options.connections, "connections", 4, "")
	flag.IntVar(&options.inFlight, "in-flight", 4, "requests of one connection")
	flag.IntVar(&options.requests, "requests", 1000, "produce requests in all")
	flag.DurationVar(&options.lasting, "lasting", 0, "as many requests as are begun in this time (produce)")
	flag.IntVar(&options.passes, "passes", 1, "how often all is fetched")
	flag.IntVar(&options.rate, "rate", 1000, "requests a second (tail, latency, round-trips, failed-logins)")
	flag.IntVar(&options.readers, "readers", 1, "who read the tail")
	flag.DurationVar(&options.commitEvery, "commit-every", 0, "0: not in transactions (idempotent)")
	flag.StringVar(&options.way, "way", "idle", "idle, half or junk (strangers)")
	options.security.declare()
	leaders := flag.String("leaders", "", "host:port of the leader of each partition, with commas between")
	pids := flag.String("pid", "", "the brokers' processes, with commas between, whose CPU is counted")
	flag.Parse()
	if kinds[*kind] == nil {
		return nil, "", fmt.Errorf("no kind of load is called %q", *kind)
	}
	err := options.security.load()
	if err != nil {
		return nil, "", err
	}
	if options.topicID, err = hex.DecodeString(*topicID); err != nil || len(options.topicID) != 16 {
		return nil, "", fmt.Errorf("not a topic id: %q", *topicID)
	}
	if *leaders != "" {
		options.leaders = strings.Split(*leaders, ",")
		if len(options.leaders) != options.partitions {
			return nil, "", fmt.Errorf("%d leaders for %d partitions", len(options.leaders), options.partitions)
		}
	}
	for _, pid := range strings.FieldsFunc(*pids, func(char rune) bool { return char == ',' }) {
		number, err := strconv.Atoi(pid)
		if err != nil {
			return nil, "", fmt.Errorf("not a process: %q", pid)
		}
		options.pids = append(options.pids, number)
	}
	if *templates != "" {
		options.templates, err = readTemplates(*templates)
	}
	return options, *kind, err
}

// leader is where a partition is written and read.
func (options *Options) leader(partition int) string {
	if len(options.leaders) == 0 {
		return options.address
	}
	return options.leaders[partition]
}

// byLeader has the partitions of each leader; one connection can carry them.
func (options *Options) byLeader() [][]int {
	var found [][]int
	places := map[string]int{}
	for partition := range options.partitions {
		leader := options.leader(partition)
		place, known := places[leader]
		if !known {
			place = len(found)
			places[leader] = place
			found = append(found, nil)
		}
		found[place] = append(found[place], partition)
	}
	return found
}

func readTemplates(path string) ([][]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var found [][]byte
	for len(data) >= 4 {
		size := int(binary.BigEndian.Uint32(data))
		found = append(found, data[4:4+size:4+size])
		data = data[4+size:]
	}
	return found, nil
}
