// SPDX-License-Identifier: Apache-2.0
// The site of lab/harness/http/site.hpp, by Go's net/http: server PORT FILE.
package main

import (
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"time"
)

var greeting = []byte("Hello, World!")

// read reads a body at once where its length is known: io.ReadAll begins with 512 bytes.
func read(request *http.Request) ([]byte, error) {
	if request.ContentLength < 0 || request.ContentLength > 1<<20 {
		return io.ReadAll(request.Body)
	}
	body := make([]byte, request.ContentLength)
	_, err := io.ReadFull(request.Body, body)
	return body, err
}

// makeJSON makes the text of lab::http::make_json() in the same way.
func makeJSON() []byte {
	text := make([]byte, 0, 96)
	text = append(text, `{"id":`...)
	text = strconv.AppendInt(text, 4711, 10)
	text = append(text, `,"name":"gyre","tags":[`...)
	for _, tag := range []string{"epoll", "io_uring", "http"} {
		if text[len(text)-1] != '[' {
			text = append(text, ',')
		}
		text = append(text, '"')
		text = append(text, tag...)
		text = append(text, '"')
	}
	return append(text, `],"ready":true}`...)
}

func main() {
	file, err := os.Open(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	site := http.NewServeMux()
	site.HandleFunc("/json", func(answer http.ResponseWriter, request *http.Request) {
		answer.Header().Set("Content-Type", "application/json")
		answer.Write(makeJSON())
	})
	site.HandleFunc("/file", func(answer http.ResponseWriter, request *http.Request) {
		file, err := os.Open(file.Name())
		if err != nil {
			log.Fatal(err)
		}
		defer file.Close()
		answer.Header().Set("Content-Type", "application/octet-stream")
		http.ServeContent(answer, request, "", time.Time{}, file)
	})
	site.HandleFunc("/", func(answer http.ResponseWriter, request *http.Request) {
		if request.Method != http.MethodPost {
			answer.Header().Set("Content-Type", "text/plain")
			answer.Write(greeting)
			return
		}
		body, err := read(request)
		if err != nil {
			http.Error(answer, "malformed", http.StatusBadRequest)
			return
		}
		answer.Header().Set("Content-Type", "application/octet-stream")
		answer.Header().Set("Content-Length", strconv.Itoa(len(body)))
		answer.Write(body)
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], site))
}
