// An HTTPS server that answers each request with its own body, as the yardstick of the admission server: what Go's
// net/http does without reading the body is what a webhook in Go could reach at best.
//
// echo CERTIFICATE KEY listens on a free port of 127.0.0.1 and prints its address.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: echo CERTIFICATE KEY")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	http.HandleFunc("/validate", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	})
	log.Fatal(http.ServeTLS(listener, nil, os.Args[1], os.Args[2]))
}
