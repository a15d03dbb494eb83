// delay forwards TCP connections and holds back every byte for a while, in both directions, as a
// long line does: it limits neither the rate nor the number of bytes on their way.
//
//	delay ADDRESS DELAY
//
// ADDRESS is that of the server, DELAY is of one direction, such as 10ms. It prints the address at
// which it listens.
package main

import (
	"fmt"
	"log"
	"net"
	"os"
	"time"
)

type chunk struct {
	due  time.Time
	data []byte
}

func main() {
	delay, err := time.ParseDuration(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	for {
		client, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go func() {
			time.Sleep(2 * delay) // the handshake of TCP
			server, err := net.Dial("tcp", os.Args[1])
			if err != nil {
				client.Close()
				return
			}
			go forward(client, server, delay)
			forward(server, client, delay)
		}()
	}
}

func forward(from, to net.Conn, delay time.Duration) {
	line := make(chan chunk, 4096)
	go func() {
		defer close(line)
		for {
			data := make([]byte, 32*1024)
			count, err := from.Read(data)
			if count > 0 {
				line <- chunk{time.Now().Add(delay), data[:count]}
			}
			if err != nil {
				return
			}
		}
	}()
	for each := range line {
		time.Sleep(time.Until(each.due))
		if _, err := to.Write(each.data); err != nil {
			break
		}
	}
	to.Close()
	from.Close()
	for range line {
	}
}
