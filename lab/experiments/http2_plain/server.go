// SPDX-License-Identifier: Apache-2.0
// The paths of lab/harness/http2/workload.hpp, by Go's net/http without TLS: server PORT FILE.
package main

import (
	"io"
	"log"
	"net/http"
	"os"
	"time"
)

var greeting = []byte("Hello, World!")

func greet(answer http.ResponseWriter, _ *http.Request) {
	answer.Header().Set("Content-Type", "text/plain")
	answer.Write(greeting)
}

func main() {
	path := os.Args[2]
	site := http.NewServeMux()
	site.HandleFunc("/plain", greet)
	site.HandleFunc("/file", func(answer http.ResponseWriter, request *http.Request) {
		file, err := os.Open(path)
		if err != nil {
			log.Fatal(err)
		}
		defer file.Close()
		answer.Header().Set("Content-Type", "application/octet-stream")
		http.ServeContent(answer, request, "", time.Time{}, file)
	})
	site.HandleFunc("/upload", func(answer http.ResponseWriter, request *http.Request) {
		if _, err := io.Copy(io.Discard, request.Body); err == nil {
			greet(answer, request)
		}
	})
	server := http.Server{Addr: "127.0.0.1:" + os.Args[1], Handler: site}
	server.Protocols = new(http.Protocols)
	server.Protocols.SetUnencryptedHTTP2(true)
	log.Fatal(server.ListenAndServe())
}
