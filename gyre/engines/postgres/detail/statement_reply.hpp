// SPDX-License-Identifier: Apache-2.0
// statement_reply: the reply to a statement that a coroutine waits for.
#pragma once

#include <gyre/engines/postgres/detail/connection_core.hpp>
#include <gyre/engines/postgres/detail/query_runner.hpp>
#include <gyre/engines/postgres/detail/statement_request.hpp>
#include <gyre/engines/postgres/server_message.hpp>
#include <gyre/sync/event.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string_view>

namespace gyre::postgres::detail {

/// Returns the number at the end of a command's tag, such as "INSERT 0 5"; 0 if it has none.
std::uint64_t affected_rows(std::string_view tag) noexcept;

/// Lives in the frame of the coroutine that waits for it; destroyed while in flight, it gives the
/// statement up.
class statement_reply : public statement_request {
 public:
  enum class outcome : std::uint8_t {
    none,
    complete,
    lost,    ///< the connection has ended, and the server may have got the request
    unsent,  ///< the connection has ended before the request was sent
  };

  /// Without a sink, rows are dropped. `max_bytes`: of the rows' values.
  explicit statement_reply(connection_core& core, row_sink* rows = nullptr,
                           std::size_t max_bytes = 0) noexcept
      : core_(core), rows_(rows), max_bytes_(max_bytes) {}
  virtual ~statement_reply() { core_.abandon(*this); }

  auto wait() noexcept { return end_event_.wait(); }
  outcome result() const noexcept { return outcome_; }
  bool is_suspended() const noexcept { return is_suspended_; }
  std::uint64_t affected() const noexcept { return affected_rows_; }
  /// Returns whether the last tag is that of ROLLBACK.
  bool is_rollback() const noexcept { return is_rollback_; }
  const std::optional<server_message>& server_failure() const noexcept { return failure_; }

  /// Whether there is an error of the connection or of a row.
  bool has_error() const noexcept { return error_ != nullptr; }

  /// After the end: throws the error of the connection, of the server, or of a row. With
  /// `has_limit`, a cancelled statement is one that exceeded its time.
  void throw_if_failed(std::string_view text, bool has_limit = false) const;

  void on_row(const row_view& row) noexcept override;
  void on_complete(std::string_view tag) noexcept override;
  void on_suspended() noexcept override { is_suspended_ = true; }
  void on_error(server_message error) noexcept override;
  void on_ready(transaction_status) noexcept override { end(outcome::complete); }
  void on_lost(const std::exception_ptr& error, bool was_sent) noexcept override;

 protected:
  /// The first error that is not the server's; the statement is given up.
  void fail(std::exception_ptr error) noexcept;
  connection_core& core() noexcept { return core_; }
  void end(outcome result) noexcept {
    outcome_ = result;
    end_event_.set();
  }

 private:
  connection_core& core_;
  row_sink* const rows_;
  const std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  std::uint64_t affected_rows_ = 0;
  manual_reset_event end_event_;
  std::optional<server_message> failure_;
  std::exception_ptr error_;
  outcome outcome_ = outcome::none;
  bool is_suspended_ = false;
  bool is_rollback_ = false;
};

}  // namespace gyre::postgres::detail
