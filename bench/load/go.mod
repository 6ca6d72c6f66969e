module penstock/bench/load

go 1.22
