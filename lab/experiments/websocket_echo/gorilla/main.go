// SPDX-License-Identifier: Apache-2.0
// The paths of lab/harness/websocket/workload.hpp, by Gorilla WebSocket: server PORT.
package main

import (
	"bytes"
	"log"
	"net/http"
	"os"
	"sync"

	"github.com/gorilla/websocket"
)

const maxMessageBytes = 1 << 20

// A topic sends messages that are encoded once. Each subscriber has a goroutine that writes.
type topic struct {
	mutex       sync.Mutex
	subscribers map[chan *websocket.PreparedMessage]struct{}
}

func (news *topic) add() chan *websocket.PreparedMessage {
	queue := make(chan *websocket.PreparedMessage, 64)
	news.mutex.Lock()
	defer news.mutex.Unlock()
	news.subscribers[queue] = struct{}{}
	return queue
}

func (news *topic) remove(queue chan *websocket.PreparedMessage) {
	news.mutex.Lock()
	defer news.mutex.Unlock()
	delete(news.subscribers, queue)
	close(queue)
}

func (news *topic) publish(message *websocket.PreparedMessage) {
	news.mutex.Lock()
	defer news.mutex.Unlock()
	for queue := range news.subscribers {
		queue <- message
	}
}

// receive calls take with each message, until the peer closes. The buffer is used again.
func receive(peer *websocket.Conn, take func(kind int, message []byte) error) {
	var message bytes.Buffer
	for {
		kind, reader, err := peer.NextReader()
		if err != nil {
			return
		}
		message.Reset()
		if _, err = message.ReadFrom(reader); err != nil {
			return
		}
		if take(kind, message.Bytes()) != nil {
			return
		}
	}
}

func handle(path string, packs bool, serve func(peer *websocket.Conn)) {
	upgrader := websocket.Upgrader{EnableCompression: packs}
	http.HandleFunc(path, func(answer http.ResponseWriter, request *http.Request) {
		peer, err := upgrader.Upgrade(answer, request, nil)
		if err != nil {
			return
		}
		defer peer.Close()
		peer.SetReadLimit(maxMessageBytes)
		if packs {
			peer.SetCompressionLevel(6)
		}
		serve(peer)
	})
}

func echo(peer *websocket.Conn) {
	receive(peer, peer.WriteMessage)
}

func main() {
	news := topic{subscribers: map[chan *websocket.PreparedMessage]struct{}{}}
	handle("/echo", false, echo)
	handle("/deflate", true, echo)
	handle("/topic", false, func(peer *websocket.Conn) {
		queue := news.add()
		defer news.remove(queue)
		go func() {
			for message := range queue {
				if peer.WritePreparedMessage(message) != nil {
					peer.Close()
				}
			}
		}()
		receive(peer, func(int, []byte) error { return nil })
	})
	handle("/publish", false, func(peer *websocket.Conn) {
		receive(peer, func(kind int, message []byte) error {
			prepared, err := websocket.NewPreparedMessage(kind, bytes.Clone(message))
			if err == nil {
				news.publish(prepared)
			}
			return err
		})
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
