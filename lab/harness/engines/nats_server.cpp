// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/engines/nats_server.hpp>

#include <lab/harness/affinity.hpp>
#include <lab/harness/engines/engine_process.hpp>
#include <lab/harness/network/socket.hpp>

#include <sys/prctl.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string_view>

namespace lab::engines {
namespace {

// tools/setup installs the program with the Python packages of the lab.
std::string find_program() {
  const std::string installed = GYRE_LAB_NATS_SERVER;
  return std::filesystem::exists(installed) ? installed : "nats-server";
}

// The server writes its ports into a file, as JSON.
std::uint16_t read_port(const std::string& folder, pid_t process) {
  std::ifstream file(folder + "/nats-server_" + std::to_string(process) + ".ports");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  constexpr std::string_view before = "\"nats://127.0.0.1:";
  const std::size_t found = text.find(before);
  std::uint16_t port = 0;
  if (found != std::string::npos) {
    const char* const digits = text.data() + found + before.size();
    std::from_chars(digits, text.data() + text.size(), port);
  }
  if (port == 0) throw std::runtime_error("it has not written its port");
  return port;
}

bare_connection connect_client(std::uint16_t port) {
  bare_connection made = bare_connection::to_port(port);
  if (!made.receive_line().starts_with("INFO ")) throw std::runtime_error("it sends no INFO");
  made.send("CONNECT {\"verbose\":false,\"pedantic\":false,\"lang\":\"lab\"}\r\nPING\r\n");
  if (made.receive_line() != "PONG") throw std::runtime_error("it sends no PONG");
  return made;
}

std::size_t parse_size(std::string_view digits) {
  std::size_t size = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    throw std::runtime_error("a size that is none");
  }
  return size;
}

// Appends the replies to the complete messages at the beginning of `input`, and returns their size.
std::size_t reply(std::string_view input, std::string& output) {
  constexpr std::string_view end_of_line = "\r\n";
  std::size_t consumed = 0;
  for (;;) {
    const std::string_view rest = input.substr(consumed);
    const std::size_t end = rest.find(end_of_line);
    if (end == std::string_view::npos) return consumed;
    const std::string_view line = rest.substr(0, end);
    std::size_t size = line.size() + end_of_line.size();
    if (line == "PING") {
      output += "PONG\r\n";
    } else if (line.starts_with("MSG ")) {
      // MSG subject subscription reply-subject size
      const std::size_t last = line.rfind(' ');
      const std::string_view without_size = line.substr(0, last);
      const std::string_view subject = without_size.substr(without_size.rfind(' ') + 1);
      const std::size_t body = parse_size(line.substr(last + 1)) + end_of_line.size();
      if (rest.size() < size + body) return consumed;
      output.append("PUB ").append(subject).append(line.substr(last)).append(end_of_line);
      output.append(rest.substr(size, body));
      size += body;
    }
    consumed += size;
  }
}

[[noreturn]] void serve_requests(std::uint16_t port, int ready, const std::vector<unsigned>& cpus) {
  try {
    pin_thread(cpus);
    bare_connection connection = connect_client(port);
    connection.send(std::string("SUB ") + nats_server::subject + " 1\r\nPING\r\n");
    if (connection.receive_line() != "PONG") throw std::runtime_error("no PONG");
    network::checked(static_cast<int>(write(ready, "1", 1)), "write");
    std::string input;
    std::string output;
    for (;;) {
      connection.receive(input);
      input.erase(0, reply(input, output));
      connection.send(output);
      output.clear();
    }
  } catch (const std::exception&) {
    _exit(1);  // the server has ended
  }
}

pid_t start_service(std::uint16_t port, const std::vector<unsigned>& cpus) {
  int ends[2];
  network::checked(pipe(ends), "pipe");
  const pid_t parent = getpid();
  const pid_t child = network::checked(fork(), "fork");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(ends[0]);
    if (getppid() != parent) _exit(1);
    serve_requests(port, ends[1], cpus);
  }
  close(ends[1]);
  char mark = 0;
  const ssize_t got = read(ends[0], &mark, 1);
  close(ends[0]);
  if (got != 1) {
    end_process(child);
    throw std::runtime_error("the service cannot subscribe");
  }
  return child;
}

}  // namespace

nats_server::nats_server(const std::vector<unsigned>& cpus)
    : process_(start_program({.words = {find_program(), "--addr", "127.0.0.1", "--port", "-1",
                                        "--ports_file_dir", folder_.path()},
                              .cpus = cpus,
                              .output = folder_.path() + "/log"})) {
  await_ready(process_, "nats-server", folder_.path() + "/log", [this] {
    port_ = read_port(folder_.path(), process_);
    connect_client(port_);
  });
  try {
    service_ = start_service(port_, cpus);
  } catch (...) {
    end_process(process_);
    throw;
  }
}

nats_server::~nats_server() {
  end_process(service_);
  end_process(process_);
}

}  // namespace lab::engines
