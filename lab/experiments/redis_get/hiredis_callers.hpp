// SPDX-License-Identifier: Apache-2.0
// The callers of hiredis' contenders, which differ in the loop below them: a callback for each
// reply, from which the caller's next command is sent.
#pragma once

#include <lab/experiments/redis_get/workload.hpp>

#include <hiredis/async.h>
#include <hiredis/hiredis.h>

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace lab::redis_get {

class hiredis_callers {
 public:
  /// Begins to connect. Errors: throws std::runtime_error.
  hiredis_callers(const server_address& server, std::span<caller> callers)
      : items_(server.items),
        context_(redisAsyncConnectUnix(server.socket.c_str())),
        running_(callers.size()) {
    if (context_ == nullptr) throw std::bad_alloc();
    if (context_->err != 0) throw std::runtime_error(std::string("hiredis: ") + context_->errstr);
    for (caller& each : callers) calls_.push_back({this, &each});
  }
  hiredis_callers(const hiredis_callers&) = delete;
  hiredis_callers& operator=(const hiredis_callers&) = delete;
  ~hiredis_callers() {
    if (context_ != nullptr) redisAsyncFree(context_);
  }

  redisAsyncContext* context() { return context_; }
  /// Sends the first command of each caller, once a loop is attached to the context.
  void start() {
    for (call& each : calls_) ask(each);
  }
  bool have_ended() const { return running_ == 0; }
  /// The bytes of all values that have come.
  std::size_t received_bytes() const { return received_bytes_; }

 private:
  struct call {
    hiredis_callers* owner;
    caller* self;
  };

  void ask(call& of_caller) {
    constexpr std::string_view name = "GET";
    const std::string_view key = items_.key(of_caller.self->ask());
    std::array<const char*, 2> words{name.data(), key.data()};
    const std::array<std::size_t, 2> sizes{name.size(), key.size()};
    if (redisAsyncCommandArgv(context_, &on_reply, &of_caller, 2, words.data(), sizes.data()) !=
        REDIS_OK) {
      throw std::runtime_error("hiredis: no command can be sent");
    }
  }

  static void on_reply(redisAsyncContext*, void* given, void* data) {
    call& of_caller = *static_cast<call*>(data);
    const auto* const reply = static_cast<const redisReply*>(given);
    const bool is_value = reply != nullptr && reply->type == REDIS_REPLY_STRING;
    const bool asks_again = is_value ? of_caller.self->take({reply->str, reply->len})
                                     : of_caller.self->take_failure() && reply != nullptr;
    if (is_value) of_caller.owner->received_bytes_ += reply->len;
    if (asks_again) return of_caller.owner->ask(of_caller);
    --of_caller.owner->running_;
  }

  const item_set& items_;
  redisAsyncContext* context_;
  std::size_t running_;
  std::size_t received_bytes_ = 0;
  std::vector<call> calls_;
};

}  // namespace lab::redis_get
