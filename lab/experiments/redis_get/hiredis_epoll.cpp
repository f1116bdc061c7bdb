// SPDX-License-Identifier: Apache-2.0
// hiredis: its asynchronous interface on a bare loop, as a program that knows it well would write
// one: commands leave right after the replies, without waiting until the socket is writable. As
// hiredis reads 16 KiB at a time, the loop reads large values up to four times before it writes:
// fewer reads cost more writes, and more of them keep the server waiting.
#include <lab/experiments/redis_get/hiredis_callers.hpp>
#include <lab/harness/network/socket.hpp>

#include <sys/epoll.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace {

using lab::network::checked;
using lab::redis_get::hiredis_callers;

class bare_loop {
 public:
  explicit bare_loop(hiredis_callers& clients)
      : clients_(clients),
        context_(*clients.context()),
        epoll_(checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1")) {
    context_.ev.data = this;
    context_.ev.addRead = [](void*) {};
    context_.ev.delRead = [](void*) {};
    context_.ev.addWrite = [](void* self) { static_cast<bare_loop*>(self)->has_output_ = true; };
    context_.ev.delWrite = [](void* self) { static_cast<bare_loop*>(self)->has_output_ = false; };
    context_.ev.cleanup = [](void*) {};
    watch(EPOLL_CTL_ADD, EPOLLIN | EPOLLOUT);
  }
  bare_loop(const bare_loop&) = delete;
  bare_loop& operator=(const bare_loop&) = delete;
  ~bare_loop() { close(epoll_); }

  void turn() {
    epoll_event event{};
    if (epoll_wait(epoll_, &event, 1, -1) != 1) return;
    if ((event.events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0) read();
    if (has_output_) redisAsyncHandleWrite(&context_);
    const std::uint32_t wanted = has_output_ ? EPOLLIN | EPOLLOUT : EPOLLIN;
    if (wanted != watched_) watch(EPOLL_CTL_MOD, wanted);
  }

 private:
  static constexpr int max_reads = 4;
  // Less than hiredis takes in one read: after it, hardly anything is left in the socket.
  static constexpr std::size_t large_read = std::size_t{8} * 1024;

  void read() {
    for (int reads = 0; reads < max_reads; ++reads) {
      const std::size_t before = clients_.received_bytes();
      redisAsyncHandleRead(&context_);
      if (clients_.received_bytes() - before < large_read) return;
    }
  }

  void watch(int operation, std::uint32_t events) {
    watched_ = events;
    epoll_event wanted{.events = events, .data = {.ptr = this}};
    checked(epoll_ctl(epoll_, operation, context_.c.fd, &wanted), "epoll_ctl");
  }

  hiredis_callers& clients_;
  redisAsyncContext& context_;
  int epoll_;
  std::uint32_t watched_ = 0;
  bool has_output_ = false;
};

struct hiredis_client {
  static void serve(const lab::redis_get::server_address& server,
                    std::span<lab::engines::caller> callers) {
    hiredis_callers clients(server, callers);
    bare_loop loop(clients);
    clients.start();
    while (!clients.have_ended()) loop.turn();
  }
};

std::string version() {
  return std::to_string(HIREDIS_MAJOR) + '.' + std::to_string(HIREDIS_MINOR) + '.' +
         std::to_string(HIREDIS_PATCH);
}

}  // namespace

int main(int argc, char** argv) {
  return lab::redis_get::contender_main<hiredis_client>(argc, argv, {{"hiredis", version()}});
}
