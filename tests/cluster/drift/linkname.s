// A file of this kind lets main.go declare functions without a body.
