// SPDX-License-Identifier: Apache-2.0
// http2_server_test_support: a server in virtual time, and clients of HTTP/2 that write frames.
#pragma once

#include <gyre/http/http2_test_support.hpp>
#include <gyre/http/server_test_support.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace gyre::http::test {

/// A client of HTTP/2, whose frames the test writes.
struct http2_client {
  /// Acknowledges the SETTINGS of the server, which come soon.
  explicit http2_client(const gyre::net::endpoint& server)
      : http2_client(server, client_hello() + frame(settings_frame, ack, 0)) {}
  http2_client(const gyre::net::endpoint& server, std::string_view beginning) : socket(server) {
    socket.send(beginning);
  }
  void send(std::string_view bytes) const { socket.send(bytes); }

  peer socket;
  frame_printer printer;
  std::string frames;                           // the received frames, one a line
  std::map<std::uint32_t, std::string> bodies;  // the received bodies, by stream
};

class http2_server_fixture : public server_fixture {
 protected:
  http2_client connect_http2() { return http2_client(on->local_endpoint()); }
  void receive(http2_client& client) {
    client.socket.receive();
    read_frames(client);
  }
  /// Reads the frames of the bytes that were received.
  static void read_frames(http2_client& client) {
    for (const received_frame& each : take_frames(client.socket.text)) {
      if (each.type == data_frame) client.bodies[each.stream] += each.payload;
      client.frames += client.printer.print(each);
    }
  }
  /// Turns the loop until the frames contain `text`, or the connection has ended. Returns the
  /// frames, without those of the connection's beginning.
  std::string wait_for(http2_client& client, std::string_view text) {
    virtual_time.turn_until([&] {
      receive(client);
      return client.frames.find(text) != std::string::npos || client.socket.ended;
    });
    return without_beginning(client.frames);
  }
  /// Waits until the server has read all that was sent, which its answer to a PING shows.
  void pass_ping(http2_client& peer) {
    constexpr std::string_view answer = "PING ack\n";
    peer.send(frame(ping_frame, 0, 0, "12345678"));
    wait_for(peer, answer);
    if (const std::size_t at = peer.frames.find(answer); at != std::string::npos) {
      peer.frames.erase(at, answer.size());
    }
  }
  static std::string without_beginning(std::string frames) {
    const std::string window =
        "WINDOW_UPDATE 0 " + std::to_string(http2_options().connection_window - 65'535) + '\n';
    for (const std::string_view each : {std::string_view("SETTINGS\n"), std::string_view(window),
                                        std::string_view("SETTINGS ack\n")}) {
      if (const std::size_t at = frames.find(each); at != std::string::npos) {
        frames.erase(at, each.size());
      }
    }
    return frames;
  }
  std::string exchange(std::string_view bytes, std::string_view last) {
    http2_client client = connect_http2();
    client.send(bytes);
    return wait_for(client, last);
  }
};

}  // namespace gyre::http::test
