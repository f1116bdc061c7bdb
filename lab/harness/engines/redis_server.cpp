// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/engines/redis_server.hpp>

#include <lab/harness/engines/engine_process.hpp>

#include <cstdint>
#include <stdexcept>
#include <string_view>

namespace lab::engines {
namespace {

// Appends a word of a command as the protocol writes it.
void append_word(std::string& command, std::string_view word) {
  command.append("$")
      .append(std::to_string(word.size()))
      .append("\r\n")
      .append(word)
      .append("\r\n");
}

}  // namespace

redis_server::redis_server(const item_set& items, const std::vector<unsigned>& cpus)
    : process_(start_program(
          {.words = {"redis-server", "--port", "0", "--unixsocket", socket(), "--save", "", "--dir",
                     folder_.path(), "--daemonize", "no", "--loglevel", "warning"},
           .cpus = cpus,
           .output = folder_.path() + "/log"})) {
  await_ready(process_, "redis-server", folder_.path() + "/log", [this] {
    bare_connection connection = bare_connection::to_unix(socket());
    connection.send("PING\r\n");
    if (connection.receive_line() != "+PONG") throw std::runtime_error("not ready");
  });
  try {
    load(items);
  } catch (...) {
    end_process(process_);
    throw;
  }
}

redis_server::~redis_server() { end_process(process_); }

void redis_server::load(const item_set& items) const {
  bare_connection connection = bare_connection::to_unix(socket());
  for (std::uint32_t item = 0; item < items.count(); ++item) {
    std::string command = "*3\r\n";
    append_word(command, "SET");
    append_word(command, items.key(item));
    append_word(command, items.value(item));
    connection.send(command);
    if (connection.receive_line() != "+OK") throw std::runtime_error("redis-server refuses SET");
  }
}

}  // namespace lab::engines
