// SPDX-License-Identifier: Apache-2.0
// statement_request: a statement in flight, and what becomes of the server's messages about it.
#pragma once

#include <gyre/engines/detail/pipeline.hpp>
#include <gyre/engines/postgres/detail/prepared_statement.hpp>
#include <gyre/engines/postgres/detail/row_view.hpp>
#include <gyre/engines/postgres/server_message.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string_view>
#include <vector>

namespace gyre::postgres::detail {

/// The state of a session at the end of a reply (ReadyForQuery).
enum class transaction_status : char {
  idle = 'I',
  open = 'T',
  failed = 'E',  ///< an error: the server refuses all statements until ROLLBACK
};

/// Lives in the frame of the coroutine that waits for it. It ends with on_ready() or on_lost(), and
/// is in flight until then, or until connection_core::abandon().
///
/// Functions are called on the loop, in the turn in which the connection reads, and must not
/// destroy the connection. Views are valid during the call only.
class statement_request : public engines::detail::pending_reply {
 public:
  /// Whether on_columns() is to be called, which costs copies of the columns' names.
  virtual bool wants_columns() const noexcept { return false; }
  /// The types of parameters, and columns: of a statement that is being prepared, and of each
  /// statement of a script. Throw std::bad_alloc only, which ends the connection.
  virtual void on_parameters(std::vector<std::uint32_t> /*types*/) {}
  virtual void on_columns(std::vector<column_description> /*columns*/) {}
  /// A row of the statement; those of execute_options::prefix are dropped.
  virtual void on_row(const row_view& /*row*/) noexcept {}
  /// A statement is done, but its transaction may still fail: only on_ready() ends the reply.
  /// `tag`: "INSERT 0 5"; empty for an empty statement.
  virtual void on_complete(std::string_view /*tag*/) noexcept {}
  /// `max_rows` rows have come, and the portal may have more.
  virtual void on_suspended() noexcept {}
  /// An error of the statement, or of one before it in the same request.
  virtual void on_error(server_message error) noexcept = 0;

  /// Whether the request is a COPY from the client. If not, one ends the connection, because
  /// nothing else could end that state of the server.
  virtual bool is_copy_in() const noexcept { return false; }
  /// Called when the server waits for copy_data(), and then copy_done() or copy_fail().
  virtual void on_copy_in() noexcept {}
  virtual void on_copy_out() noexcept {}
  virtual void on_copy_data(std::span<const std::byte> /*bytes*/) noexcept {}
  virtual void on_copy_done() noexcept {}

  /// Called at the end of the reply.
  virtual void on_ready(transaction_status status) noexcept = 0;
  /// Called if the connection ends before on_ready(). Without `was_sent` the server has not
  /// received the request.
  virtual void on_lost(const std::exception_ptr& error, bool was_sent) noexcept = 0;

  bool is_in_flight() const noexcept { return is_in_flight_; }

 protected:
  ~statement_request() = default;

 private:
  friend class connection_core;

  void lose(const std::exception_ptr& error, bool was_sent) noexcept final {
    is_in_flight_ = false;
    on_lost(error, was_sent);
  }

  std::uint64_t number_ = 0;     // the position of the request in the pipeline's order
  std::size_t prefix_left_ = 0;  // replies that come before that of the statement itself
  bool is_in_flight_ = false;
  bool is_cancelled_ = false;
};

}  // namespace gyre::postgres::detail
