package main

import (
	"fmt"
	"os"
	"sort"
	"syscall"
	"time"
	"unsafe"
)

const processClock = 2 // CPUCLOCK_SCHED of Linux, in the lower bits of a clock's number

// cpuSeconds is user and system time of a process and all its threads, ended ones too. The clock of a
// process counts nanoseconds, where /proc/PID/stat counts hundredths of a second: too coarse for runs
// that take a quarter of a second.
func cpuSeconds(pid int) float64 {
	clock := uintptr(^uint32(pid)<<3 | processClock)
	var spent syscall.Timespec
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&spent)), 0)
	if errno != 0 {
		fmt.Fprintf(os.Stderr, "load: the CPU time of process %d: %v\n", pid, errno)
		os.Exit(1)
	}
	return float64(spent.Nano()) / 1e9
}

// Meter counts the time and the brokers' CPU between its start and its end.
type Meter struct {
	pids    []int
	started time.Time
	cpu     float64
}

func startMeter(pids []int) Meter {
	return Meter{pids: pids, cpu: cpuOfAll(pids), started: time.Now()}
}

func cpuOfAll(pids []int) float64 {
	var sum float64
	for _, pid := range pids {
		sum += cpuSeconds(pid)
	}
	return sum
}

func (meter Meter) result(latencies []time.Duration) Result {
	seconds := time.Since(meter.started).Seconds()
	result := Result{Seconds: seconds, CPUSeconds: cpuOfAll(meter.pids) - meter.cpu}
	quantiles(&result, latencies)
	return result
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
