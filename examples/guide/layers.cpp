// SPDX-License-Identifier: Apache-2.0
// Guide to layers: frames with a checksum, below the callbacks of a server and the coroutine of a
// client.
#include <gyre/base/endian.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/input.hpp>
#include <gyre/net/connect.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/layer.hpp>
#include <gyre/net/layered_stream.hpp>
#include <gyre/net/tcp_connection.hpp>
#include <gyre/net/tcp_server.hpp>
#include <gyre/task/task.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

// Each frame: its size and the sum of its bytes, four bytes each, and the bytes. A frame without
// bytes is the end.
class checked_frames final : public gyre::net::layer {
 public:
  status peek() override {
    if (why().code) return status::failed;
    if (left_ > 0) return status::done;
    if (has_ended()) return status::ended;
    if (unread().size() < header_size) return status::wants_input;
    const auto size = gyre::load_be<std::uint32_t>(unread().data());
    const auto sum = gyre::load_be<std::uint32_t>(unread().data() + sizeof(size));
    if (size > max_frame) return fail(std::make_error_code(std::errc::message_size));
    if (unread().size() < header_size + size) return status::wants_input;
    if (sum_of(unread().subspan(header_size, size)) != sum) {
      return fail(std::make_error_code(std::errc::bad_message), "a frame was changed on its way");
    }
    consume(header_size);
    left_ = size;
    has_peer_ended_ = size == 0;
    return has_peer_ended_ ? status::ended : status::done;
  }
  status read(std::span<std::byte> room, std::size_t& count) override {
    count = 0;
    const status now = peek();
    if (now != status::done) return now;
    count = std::min(room.size(), left_);
    std::ranges::copy(unread().first(count), room.begin());
    consume(count);
    left_ -= count;
    return status::done;
  }
  status write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const auto part = bytes.first(std::min(bytes.size(), max_frame));
      append_frame(part);
      bytes = bytes.subspan(part.size());
    }
    return status::done;
  }
  void end() override {
    if (has_announced_end()) return;
    layer::end();
    append_frame({});
  }
  std::error_code end_of_bytes() const noexcept override {
    if (has_ended()) return {};
    return std::make_error_code(std::errc::connection_aborted);
  }

 private:
  static constexpr std::size_t header_size = 8, max_frame = 4096;

  static std::uint32_t sum_of(std::span<const std::byte> bytes) {
    std::uint32_t sum = 1;
    for (const std::byte each : bytes) sum = sum * 31 + std::to_integer<std::uint32_t>(each);
    return sum;
  }
  void append_frame(std::span<const std::byte> bytes) {
    const std::span<std::byte> header = output().prepare(header_size);
    gyre::store_be(header.data(), static_cast<std::uint32_t>(bytes.size()));
    gyre::store_be(header.data() + header_size / 2, sum_of(bytes));
    output().commit(header_size);
    output().append(bytes);
  }

  std::size_t left_ = 0;  // bytes of the first frame that are to be read
};

class checked_transport final : public gyre::net::transport {
 public:
  std::unique_ptr<gyre::net::layer> make_layer(std::string_view /*host*/) const override {
    return std::make_unique<checked_frames>();
  }
};

// A change of one byte is noticed: no socket, and no loop, is needed to see that.
bool notices_a_change() {
  gyre::io::buffer sent;
  gyre::io::buffer plain;
  checked_frames sender;
  sender.send_to(sent);
  sender.write(std::as_bytes(std::span("hello", 5)));
  sent.mutable_bytes().back() ^= std::byte{1};
  checked_frames receiver;
  receiver.feed(sent.bytes());
  return receiver.read_all(plain) == gyre::net::layer::status::failed && plain.empty();
}

gyre::task<> talk(gyre::net::endpoint server) {
  auto connected = co_await gyre::net::connect(server);
  auto frames = std::make_unique<checked_frames>();
  auto stream = co_await gyre::net::open_layer(std::move(connected), std::move(frames));
  co_await stream.write_all("hello, frames");
  co_await stream.shutdown();
  for (;;) {
    auto reply = co_await stream.receive();
    if (reply.empty()) co_return;
    std::cout << reply.text();
  }
}

int main() {
  if (!notices_a_change()) return EXIT_FAILURE;
  gyre::loop loop;
  gyre::net::tcp_server_options options;
  options.transport = std::make_shared<checked_transport>();
  const gyre::net::endpoint any_port(gyre::net::ip_address::loopback_v4(), 0);
  gyre::net::tcp_server server(loop, any_port, options);
  server.on_message([](gyre::net::tcp_connection& connection, gyre::io::input& input) {
    connection.send(input.bytes());  // plain bytes, in and out
    input.consume_all();
  });
  server.start();
  gyre::sync_wait(loop, talk(server.local_endpoint()));
  std::cout << '\n';
}
