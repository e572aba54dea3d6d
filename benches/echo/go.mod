module gpulint.dev/benches/echo

go 1.24
