// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/http/vectors.hpp>

#include <lab/harness/network/socket.hpp>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace lab::http {
namespace {

constexpr int quiet_ms = 250;
constexpr std::string_view chunked_head =
    "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

std::size_t number_in(std::string_view digits, int base) {
  std::size_t number = 0;
  const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
  if (digits.empty() || end.ptr != digits.data() + digits.size()) {
    throw std::runtime_error("bad number in an escape");
  }
  return number;
}

char simple_escape(char letter) {
  switch (letter) {
    case 'r': return '\r';
    case 'n': return '\n';
    case 't': return '\t';
    case '0': return '\0';
    case '\\': return '\\';
    default: throw std::runtime_error("an unknown escape");
  }
}

struct read_vector {
  request_vector vector;
  bool is_request = false;
};

void read_line(std::string_view line, std::vector<read_vector>& read) {
  const std::size_t colon = line.find(": ");
  if (colon == std::string_view::npos) throw std::runtime_error("a vector's line has no key");
  const std::string_view key = line.substr(0, colon);
  const std::string_view value = line.substr(colon + 2);
  if (key == "name") read.emplace_back().vector.name = value;
  if (read.empty()) throw std::runtime_error("a vector has no name");
  auto& [vector, is_request] = read.back();
  if (key == "direction") {
    is_request = value == "request" || value == "chunked";
    if (value == "chunked") vector.bytes = chunked_head;
  } else if (key == "bytes") {
    vector.bytes += unescaped(value);
  } else if (key == "expect") {
    vector.expected = value.starts_with("accept")   ? verdict::accepts
                      : value.starts_with("refuse") ? verdict::refuses
                                                    : verdict::incomplete;
  }
}

// The connection on which a vector is sent.
struct probe {
  int fd = -1;
  std::string_view to_send;
  std::string answer;
  bool is_over = false;

  verdict result() const {
    const verdict answered = verdict_of(answer);
    return answered == verdict::incomplete && is_over ? verdict::refuses : answered;
  }
  bool is_decided() const { return is_over || verdict_of(answer) != verdict::incomplete; }

  void send() {
    const ssize_t sent = ::send(fd, to_send.data(), to_send.size(), MSG_NOSIGNAL);
    if (sent > 0) to_send.remove_prefix(static_cast<std::size_t>(sent));
    if (sent < 0 && errno != EAGAIN) to_send = {};
  }

  void receive() {
    std::array<char, 4096> bytes;
    const ssize_t got = recv(fd, bytes.data(), bytes.size(), 0);
    if (got > 0) answer.append(bytes.data(), static_cast<std::size_t>(got));
    if (got == 0 || (got < 0 && errno != EAGAIN)) is_over = true;
  }
};

// Waits for events and handles them; returns whether there were any.
bool turn(std::vector<probe>& probes) {
  std::vector<pollfd> waiting;
  std::vector<probe*> waiters;
  for (probe& each : probes) {
    if (each.is_decided()) continue;
    const int events = each.to_send.empty() ? POLLIN : POLLIN | POLLOUT;
    waiting.push_back({.fd = each.fd, .events = static_cast<short>(events), .revents = 0});
    waiters.push_back(&each);
  }
  if (waiting.empty() || poll(waiting.data(), waiting.size(), quiet_ms) <= 0) return false;
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    if ((waiting[i].revents & POLLOUT) != 0) waiters[i]->send();
    if ((waiting[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0) waiters[i]->receive();
  }
  return true;
}

}  // namespace

std::string unescaped(std::string_view text) {
  std::string bytes;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\\') {
      bytes += text[at];
      continue;
    }
    if (++at == text.size()) throw std::runtime_error("an escape ends too early");
    if (text[at] == 'x') {
      bytes += static_cast<char>(number_in(text.substr(at + 1, 2), 16));
      at += 2;
    } else if (text[at] == '*') {
      const std::size_t open = text.find('{', at);
      const std::size_t close = text.find('}', at);
      if (open > close || close == std::string_view::npos) {
        throw std::runtime_error("a repetition has no braces");
      }
      const std::string part = unescaped(text.substr(open + 1, close - open - 1));
      for (auto n = number_in(text.substr(at + 1, open - at - 1), 10); n != 0; --n) bytes += part;
      at = close;
    } else {
      bytes += simple_escape(text[at]);
    }
  }
  return bytes;
}

std::vector<request_vector> read_request_vectors() {
  std::vector<read_vector> read;
  for (const auto& entry : std::filesystem::directory_iterator(GYRE_LAB_HTTP_VECTORS)) {
    if (entry.path().extension() != ".txt" || entry.path().stem() == "limits") continue;
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      if (!line.empty() && !line.starts_with('#')) read_line(line, read);
    }
  }
  std::vector<request_vector> vectors;
  for (read_vector& each : read) {
    if (each.is_request) vectors.push_back(std::move(each.vector));
  }
  if (vectors.empty()) throw std::runtime_error("no vectors in " GYRE_LAB_HTTP_VECTORS);
  std::ranges::sort(vectors, {}, &request_vector::name);
  return vectors;
}

verdict verdict_of(std::string_view answer) {
  constexpr std::array about_the_message{400, 408, 411, 413, 414, 417, 426, 431, 501, 505};
  constexpr std::size_t status_begin = std::string_view("HTTP/1.1 ").size();
  while (answer.size() >= status_begin + 3) {
    int status = 0;
    const char* const digits = answer.data() + status_begin;
    if (!answer.starts_with("HTTP/1.") ||
        std::from_chars(digits, digits + 3, status).ptr != digits + 3) {
      return verdict::accepts;  // a body without a head, as HTTP/0.9 had it
    }
    if (status >= 200) {
      return std::ranges::find(about_the_message, status) == about_the_message.end()
                 ? verdict::accepts
                 : verdict::refuses;
    }
    const std::size_t end = answer.find("\r\n\r\n");
    if (end == std::string_view::npos) break;
    answer.remove_prefix(end + 4);  // an interim answer
  }
  return verdict::incomplete;
}

vectors_result judge_server(std::uint16_t port, const std::vector<request_vector>& vectors) {
  const std::vector<int> connected = network::connect_all(port, vectors.size());
  std::vector<probe> probes(vectors.size());
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    probes[i].fd = connected[i];
    probes[i].to_send = vectors[i].bytes;
    probes[i].send();
  }
  while (turn(probes)) {
  }
  vectors_result result;
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    const verdict got = probes[i].result();
    close(probes[i].fd);
    const bool is_limit = probes[i].answer.starts_with("HTTP/1.1 413 ");
    if (got == vectors[i].expected || is_limit) {
      ++result.passed;
    } else {
      constexpr std::array<std::string_view, 3> words{"accepts ", "refuses ", "waits for "};
      result.failed.push_back(std::string(words[static_cast<std::size_t>(got)]) + vectors[i].name);
    }
  }
  return result;
}

}  // namespace lab::http
