// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/engines/postgres_session.hpp>

#include <lab/harness/engines/postgres_server.hpp>

#include <arpa/inet.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string_view>

namespace lab::engines {
namespace {

void append_number(std::string& bytes, std::uint32_t number) {
  const std::uint32_t on_network = htonl(number);
  bytes.append(reinterpret_cast<const char*>(&on_network), sizeof on_network);
}

std::uint32_t number_at(std::string_view bytes, std::size_t offset) {
  std::uint32_t number = 0;
  if (bytes.size() < offset + sizeof number) throw std::runtime_error("PostgreSQL: a short row");
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return ntohl(number);
}

// The first column of a DataRow; empty if it has none.
std::string first_column(std::string_view row) {
  constexpr std::size_t head = sizeof(std::uint16_t);  // the number of columns
  constexpr std::uint32_t null = 0xffffffff;
  if (row.size() <= head) return {};
  const std::uint32_t size = number_at(row, head);
  if (size == null) return {};
  return std::string(row.substr(head + sizeof size, size));
}

}  // namespace

postgres_session::postgres_session(const std::string& host, const std::string& database)
    : connection_(bare_connection::to_unix(host + "/.s.PGSQL.5432")) {
  std::string startup;
  append_number(startup, 3 << 16);  // the protocol's version 3.0
  for (const std::string_view word :
       {std::string_view("user"), std::string_view(postgres_server::user),
        std::string_view("database"), std::string_view(database)}) {
    startup.append(word).push_back('\0');
  }
  startup.push_back('\0');
  send("", startup);
  await_ready();
}

std::string postgres_session::query(const std::string& statements) {
  send("Q", statements + '\0');
  return await_ready();
}

double postgres_session::query_number(const std::string& statements) {
  const std::string text = query(statements);
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') {
    throw std::runtime_error("PostgreSQL: '" + text + "' is no number, of " + statements);
  }
  return number;
}

void postgres_session::send(std::string message, const std::string& body) {
  append_number(message, static_cast<std::uint32_t>(body.size() + sizeof(std::uint32_t)));
  connection_.send(message + body);
}

// Reads up to ReadyForQuery. Gives the first column of the last row.
std::string postgres_session::await_ready() {
  constexpr char data_row = 'D';
  constexpr char error = 'E';
  constexpr char ready = 'Z';
  std::string value;
  for (char kind = 0; kind != ready;) {
    const std::string head = connection_.receive_exactly(1 + sizeof(std::uint32_t));
    kind = head[0];
    const std::uint32_t size = number_at(head, 1);
    std::string body = connection_.receive_exactly(size - sizeof size);
    if (kind == data_row) value = first_column(body);
    if (kind != error) continue;
    std::ranges::replace(body, '\0', ' ');
    throw std::runtime_error("PostgreSQL: " + body);
  }
  return value;
}

}  // namespace lab::engines
