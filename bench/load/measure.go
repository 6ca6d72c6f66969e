package main

import (
	"bytes"
	"fmt"
	"os"
	"sort"
	"strconv"
	"time"
)

const ticksPerSecond = 100 // USER_HZ, which Linux has fixed for programs

// cpuSeconds is user and system time of a process and all its threads, ended ones too.
func cpuSeconds(pid int) float64 {
	if pid == 0 {
		return 0
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name, in brackets, may hold blanks: count from its end.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	user, _ := strconv.ParseFloat(string(fields[11]), 64)
	system, _ := strconv.ParseFloat(string(fields[12]), 64)
	return (user + system) / ticksPerSecond
}

func quantiles(result *Result, latencies []time.Duration) {
	if len(latencies) == 0 {
		return
	}
	sort.Slice(latencies, func(a, b int) bool { return latencies[a] < latencies[b] })
	at := func(share float64) float64 {
		index := int(share * float64(len(latencies)))
		if index >= len(latencies) {
			index = len(latencies) - 1
		}
		return float64(latencies[index]) / float64(time.Millisecond)
	}
	result.P50, result.P99, result.P999, result.Max = at(0.5), at(0.99), at(0.999), at(1)
}
