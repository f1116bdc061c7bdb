// SPDX-License-Identifier: Apache-2.0
// http2_client_test_support: clients of HTTP/2 in clear text, and servers whose frames the test
// writes.
#pragma once

#include <gyre/http/client.hpp>
#include <gyre/http/http2_test_support.hpp>
#include <tests/support/http_peers.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <string_view>

namespace gyre::http::test {

/// The HEADERS frame of a response.
inline std::string response_frame(std::uint32_t stream, std::string_view status = "200",
                                  std::uint8_t flags = end_stream, const field_texts& more = {}) {
  field_texts fields{{":status", std::string(status)}};
  fields.insert(fields.end(), more.begin(), more.end());
  return frame(headers_frame, static_cast<std::uint8_t>(flags | end_headers), stream,
               block_of(fields));
}

/// The frames of a whole response.
inline std::string text_response(std::uint32_t stream, std::string_view text) {
  return response_frame(stream, "200", 0) + frame(data_frame, end_stream, stream, text);
}

/// An entry of a SETTINGS frame, as its bytes.
inline std::string setting_entry(std::uint16_t identifier, std::uint32_t value) {
  return big_endian(identifier, 2) + big_endian(value);
}

inline std::string goaway(std::uint32_t last, std::uint32_t error = 0) {
  return frame(goaway_frame, 0, 0, big_endian(last) + big_endian(error));
}

inline std::string reset_stream(std::uint32_t stream, std::uint32_t error) {
  return frame(reset_frame, 0, stream, big_endian(error));
}

/// The server's end of a connection.
struct server_end {
  explicit server_end(net::test::peer& accepted) : socket(&accepted) {}

  void send(std::string_view bytes) const { socket->send(bytes); }

  net::test::peer* socket;
  frame_printer printer;
  std::string frames = {};  // the received frames, one a line
  bool has_preface = false;
};

/// The fixture: a client in virtual time, and servers whose frames the test writes.
class http2_client_fixture : public http_client_test {
 protected:
  static client_options speaking_http2() {
    client_options options;
    options.http2.prior_knowledge = true;
    return options;
  }
  void receive(server_end& end) {
    end.socket->receive();
    std::string& bytes = end.socket->text;
    if (!end.has_preface && bytes.size() >= http2_preface.size()) {
      EXPECT_THAT(bytes, testing::StartsWith(http2_preface));
      bytes.erase(0, http2_preface.size());
      end.has_preface = true;
    }
    if (end.has_preface) end.frames += end.printer.print(bytes);
  }
  /// Turns the loop until the frames contain `text`, or the connection has ended. Returns the
  /// frames without those of the connection's beginning.
  std::string wait_for(server_end& end, std::string_view text) {
    virtual_time.turn_until([&] {
      receive(end);
      return end.frames.find(text) != std::string::npos || end.socket->ended;
    });
    std::string frames = end.frames;
    for (const std::string_view each : {"SETTINGS\n", "WINDOW_UPDATE 0 104792065\n",
                                        "WINDOW_UPDATE 0 34465\n", "SETTINGS ack\n"}) {
      if (const std::size_t begin = frames.find(each); begin != std::string::npos) {
        frames.erase(begin, each.size());
      }
    }
    return frames;
  }
  /// Accepts a connection, and sends the server's SETTINGS.
  server_end& accept_http2(std::string_view settings = {}) {
    server_end& end = ends_.emplace_back(accept());
    end.send(frame(settings_frame, 0, 0, settings) + frame(settings_frame, ack, 0));
    return end;
  }
  void settle() { virtual_time.settle(); }
  /// Turns the loop until the client has read what was sent, which its answer to a PING shows.
  void settle(server_end& end) {
    end.frames.clear();
    end.send(frame(ping_frame, 0, 0, "12345678"));
    virtual_time.turn_until([&] {
      receive(end);
      return end.frames.find("PING ack") != std::string::npos || end.socket->ended;
    });
    settle();
  }
  /// Answers a first request, so that the connection is one that has answered.
  server_end& answer_first(std::string_view settings = {}) {
    running_request& first = get("/first");
    server_end& end = accept_http2(settings);
    wait_for(end, "HEADERS 1");
    end.send(response_frame(1));
    finish(first);
    EXPECT_EQ(first.message(), "");
    return end;
  }

 private:
  std::list<server_end> ends_;
};

}  // namespace gyre::http::test
