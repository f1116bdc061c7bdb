// SPDX-License-Identifier: Apache-2.0
// A chat room: a guest's first line is their name, and each further one goes to all guests. Guests
// that read too slowly are disconnected, so that they cost a bounded amount of memory.
//
//     chat [ADDRESS:PORT]
#include <gyre/exec/loop.hpp>
#include <gyre/io/input.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/framing.hpp>
#include <gyre/net/tcp_connection.hpp>
#include <gyre/net/tcp_server.hpp>
#include <gyre/runtime/signal_set.hpp>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <iostream>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

using namespace std::chrono_literals;

// A guest of the room, kept in the connection's context.
struct guest {
  std::string name;
  gyre::net::delimited lines{"\n", 4096};
};

class chat_room {
 public:
  explicit chat_room(gyre::event_loop& loop)
      : server_(
            loop,
            {.name = "chat", .connections = {.output_limit = 256 << 10}, .max_connections = 1000}) {
    server_.on_connection([](gyre::net::tcp_connection& by) {
      by.context() = guest();
      by.send("Who are you?\n");
    });
    server_.on_message(
        [this](gyre::net::tcp_connection& by, gyre::io::input& in) { read(by, in); });
    server_.on_close([this](gyre::net::tcp_connection& by, std::error_code why) {
      const std::string& name = by.context<guest>()->name;
      if (!name.empty()) say("* " + name + (why ? " is lost: " + why.message() : " leaves"));
    });
  }

  void open(const gyre::net::endpoint& address) {
    server_.listen(address);
    server_.start();
    std::cout << "listening on " << server_.local_endpoint() << std::endl;
  }

  template <class Done>
  void close(Done done) {
    say("* the room closes");
    server_.stop(2s, std::move(done));
  }

 private:
  void read(gyre::net::tcp_connection& by, gyre::io::input& in) {
    guest& who = *by.context<guest>();
    const std::error_code error = gyre::net::for_each_frame(
        who.lines, in,
        [&](std::span<const std::byte> line) { line_came(who, gyre::io::input(line).text()); });
    if (error) by.abort(error);  // the line is too long
  }

  void line_came(guest& who, std::string_view line) {
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (!who.name.empty()) {
      say(who.name + ": " + std::string(line));
    } else if (!line.empty()) {
      who.name = line.substr(0, most_of_a_name);  // the name precedes each of the guest's lines
      say("* " + who.name + " joins");
    }
  }

  static constexpr std::size_t most_of_a_name = 32;

  // A guest that reads slowly loses the newest lines once its output queue is full.
  void say(const std::string& what) { server_.broadcast(what + "\n"); }

  gyre::net::tcp_server server_;
};

int main(int argc, char** argv) {
  const gyre::net::endpoint address(argc > 1 ? argv[1] : "[::]:7008");
  gyre::loop loop;
  chat_room room(loop);
  room.open(address);
  gyre::signal_set quit(loop, {SIGINT, SIGTERM},
                        [&](const gyre::signal_info&) { room.close([&] { loop.stop(); }); });
  loop.run();
}
