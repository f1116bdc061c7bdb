// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/passed_sockets.hpp>

#include <gyre/base/detail/parse_decimal.hpp>
#include <gyre/base/endian.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/descriptor.hpp>
#include <gyre/io/detail/system_processes.hpp>
#include <gyre/net/detail/errors.hpp>
#include <gyre/net/detail/system_sockets.hpp>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <system_error>

namespace gyre::net {
namespace {

using detail::fail;

constexpr int first_passed = 3;  // systemd's SD_LISTEN_FDS_START
constexpr std::string_view separator = ":";
constexpr std::size_t max_name_bytes = 64 << 10;

// Returns the result of getenv(), which is valid until the variable is changed.
std::optional<std::string> taken_variable(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return value;
}

std::string next_name(std::string_view& names) {
  return std::string(detail::take_until(names, separator));
}

// Throws unless `fd` is a socket: another process may pass any descriptor.
void require_socket(int fd, std::string_view name, const char* function_name) {
  int type = 0;
  const io::result outcome =
      detail::system::read_option(fd, detail::system::so_type, &type, sizeof type);
  if (outcome) return;
  throw std::system_error(outcome.error(),
                          std::string(function_name) + ": '" + std::string(name) + '\'');
}

std::vector<passed_socket> named(std::vector<unique_fd> fds, std::string_view names) {
  std::vector<passed_socket> sockets;
  for (unique_fd& fd : fds) {
    if (names.empty()) fail(std::errc::protocol_error, "receive_sockets: fewer names than sockets");
    std::string name = next_name(names);
    require_socket(fd.get(), name, "receive_sockets");
    sockets.push_back(
        {.name = std::move(name), .passed = socket(io::made_non_blocking(std::move(fd)))});
  }
  if (!names.empty()) fail(std::errc::protocol_error, "receive_sockets: more names than sockets");
  return sockets;
}

}  // namespace

std::vector<passed_socket> sockets_from_environment() {
  const auto process = taken_variable("LISTEN_PID");
  const auto count = taken_variable("LISTEN_FDS");
  const std::string all_names = taken_variable("LISTEN_FDNAMES").value_or("");
  for (const char* variable : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) ::unsetenv(variable);
  if (!process || !count) return {};
  const auto process_id = gyre::detail::parse_decimal<std::uint32_t>(*process);
  const auto sockets = gyre::detail::parse_decimal<std::uint16_t>(*count);
  if (!process_id || !sockets) fail(std::errc::invalid_argument, "LISTEN_PID, LISTEN_FDS");
  if (std::cmp_not_equal(*process_id, io::detail::system::process_id())) return {};

  // All descriptors get an owner first, so that they are closed if one of them is not a socket.
  std::vector<unique_fd> fds;
  for (int fd = first_passed; fd < first_passed + *sockets; ++fd) {
    const io::result is_open = detail::system::set_close_on_exec(fd);
    if (!is_open) fail(is_open.error(), "LISTEN_FDS");
    fds.emplace_back(fd);
  }
  std::vector<passed_socket> result;
  std::string_view names = all_names;
  for (unique_fd& fd : fds) {
    std::string name = next_name(names);
    require_socket(fd.get(), name, "LISTEN_FDS");
    result.push_back(
        {.name = std::move(name), .passed = socket(io::made_non_blocking(std::move(fd)))});
  }
  return result;
}

task<> send_sockets(unix_stream& stream, std::span<const passed_socket> sockets) {
  std::string names;
  std::vector<int> fds;
  for (const passed_socket& entry : sockets) {
    if (entry.name.find(separator) != std::string::npos || entry.name.contains('\0')) {
      fail(std::errc::invalid_argument, "send_sockets: the name of a socket");
    }
    require_socket(entry.passed.fd(), entry.name, "send_sockets");
    names += entry.name;
    names += separator;
    fds.push_back(entry.passed.fd());
  }
  if (names.size() > max_name_bytes) fail(std::errc::invalid_argument, "send_sockets: names");
  io::buffer message;
  message.append(static_cast<std::uint32_t>(names.size()));
  message.append(names);
  task<std::size_t> send_task = stream.send_fds(message.bytes(), fds);
  const std::size_t count = co_await std::move(send_task);
  message.consume(count);
  auto rest = stream.write_all(message.bytes());
  co_await std::move(rest);
}

task<std::vector<passed_socket>> receive_sockets(unix_stream& stream) {
  std::array<std::byte, sizeof(std::uint32_t)> size;
  const std::span<std::byte> header(size);
  task<bytes_and_fds> receive_task = stream.receive_fds(header);
  bytes_and_fds first = co_await std::move(receive_task);
  if (first.size == 0) fail(std::errc::protocol_error, "receive_sockets: nothing came");
  auto header_task = stream.read_exactly(header.subspan(first.size));
  co_await std::move(header_task);
  const auto name_bytes = load_be<std::uint32_t>(size.data());
  if (name_bytes > max_name_bytes) fail(std::errc::protocol_error, "receive_sockets: names");
  std::string names(name_bytes, '\0');
  auto read_task = stream.read_exactly(std::as_writable_bytes(std::span(names)));
  co_await std::move(read_task);
  co_return named(std::move(first.fds), names);
}

socket listening_socket(const endpoint& local, const socket_options& options, int backlog) {
  socket listener = socket::open(local.family(), socket_type::stream);
  listener.apply(options);
  detail::bind_listener(listener, local, true);
  listener.listen(backlog);
  return listener;
}

}  // namespace gyre::net
