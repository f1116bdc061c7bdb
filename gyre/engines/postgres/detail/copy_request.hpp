// SPDX-License-Identifier: Apache-2.0
// copy_request: a COPY in flight, in either direction.
#pragma once

#include <gyre/engines/postgres/copy_writer.hpp>
#include <gyre/engines/postgres/detail/query_runner.hpp>
#include <gyre/engines/postgres/detail/statement_reply.hpp>
#include <gyre/engines/postgres/detail/transaction_state.hpp>
#include <gyre/engines/postgres/statement.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/async_generator.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace gyre::postgres::detail {

/// Lifetime: shared by the writer and its calls. Destroyed before its end, it gives the COPY up.
class copy_request {
 public:
  copy_request(joined_transaction transaction, std::string text, bool is_in);
  copy_request& operator=(copy_request&&) = delete;
  ~copy_request() { end(); }

  /// Sends the statement, and waits until the server takes or gives bytes.
  static task<std::shared_ptr<copy_request>> begin(joined_transaction transaction, std::string text,
                                                   bool is_in);
  static copy_writer make_writer(std::shared_ptr<copy_request> request) noexcept {
    return copy_writer(std::move(request));
  }

  // Calls share the request until they have ended.
  static task<> write(std::shared_ptr<copy_request> self, std::span<const std::byte> bytes);
  static task<std::uint64_t> finish(std::shared_ptr<copy_request> self);
  /// Bytes that have come; none after the last ones.
  static task<std::string> receive(std::shared_ptr<copy_request> self);

 private:
  /// The reply to the request, with the states of a COPY.
  class reply final : public statement_reply {
   public:
    reply(connection_core& core, bool is_in) noexcept : statement_reply(core), is_in_(is_in) {}

    bool is_copy_in() const noexcept override { return is_in_; }
    void on_copy_in() noexcept override { begin(); }
    void on_copy_out() noexcept override { begin(); }
    void on_copy_data(std::span<const std::byte> bytes) noexcept override;
    void on_ready(transaction_status status) noexcept override;
    void on_lost(const std::exception_ptr& error, bool was_sent) noexcept override;
    void on_error(server_message error) noexcept override;

    /// Waits for the next change of the state below.
    auto changed() noexcept { return change_event_.wait(); }
    bool has_begun() const noexcept { return has_begun_; }
    bool has_error() const noexcept { return server_failure().has_value(); }
    bool has_ended() const noexcept { return result() != outcome::none; }
    std::string take_bytes();
    bool has_bytes() const noexcept { return !bytes_.empty(); }

   private:
    void begin() noexcept {
      has_begun_ = true;
      change_event_.set();
    }

    const bool is_in_;
    bool has_begun_ = false;
    bool is_paused_ = false;
    std::string bytes_;
    auto_reset_event change_event_;
  };

  /// Waits for the end of the reply, and ends the connection's or the transaction's use.
  static task<std::uint64_t> wait_for_end(std::shared_ptr<copy_request> self);
  /// Called when the connection may be used for other statements.
  void end() noexcept;
  connection_core& core() const noexcept;

  joined_transaction transaction_;
  const std::string text_;
  reply reply_;
  bool is_finished_ = false;
  bool is_open_ = false;
};

task<copy_writer> begin_copy_in(shared_runner runner, statement text);
async_generator<std::string> copy_out_bytes(shared_runner runner, statement text);

}  // namespace gyre::postgres::detail
