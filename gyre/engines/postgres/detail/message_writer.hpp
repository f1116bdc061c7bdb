// SPDX-License-Identifier: Apache-2.0
// message_writer: the messages of a PostgreSQL client, appended to output.
#pragma once

#include <gyre/io/buffer.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gyre::postgres::detail {

/// Parameters of a connection: names and values, such as "TimeZone" and "UTC".
using parameter_list = std::vector<std::pair<std::string, std::string>>;

/// Throws std::invalid_argument with `subject` if `text` has a zero byte, which would end it early.
void require_no_zero(std::string_view text, const char* subject);

/// Appends whole messages.
///
/// Errors: std::invalid_argument for texts with a zero byte; std::length_error for messages above
/// 1 GiB, which no server takes; std::bad_alloc. A message that failed is there in part: the caller
/// drops it.
class message_writer {
 public:
  explicit message_writer(io::buffer& output) noexcept : output_(output) {}

  // --- Requests without a kind, before the login ---

  void ssl_request();
  void cancel_request(std::int32_t process, std::span<const std::byte> key);
  void startup(std::string_view user, std::string_view database, const parameter_list& parameters);

  // --- The login ---

  /// Appends a password, or a later SASL message.
  void password(std::string_view secret);
  void sasl_response(std::string_view response);
  void sasl_initial_response(std::string_view mechanism, std::string_view response);

  // --- Statements ---

  void query(std::string_view script);
  void parse(std::string_view statement, std::string_view statement_text);
  void describe_statement(std::string_view statement);
  /// `write_parameters(output)` appends the number and codes of the formats, then the number of the
  /// parameters and their values. `result_formats` is appended after it: a number and codes.
  template <class Write>
  void bind(std::string_view portal, std::string_view statement, Write&& write_parameters,
            std::span<const std::byte> result_formats) {
    begin_message('B');
    append_text(portal);
    append_text(statement);
    write_parameters(output_);
    output_.append(result_formats);
    end_message();
  }
  /// Binds a statement without parameters to the unnamed portal; its results come as text.
  void bind_unnamed();
  /// Appends Execute; `max_rows` zero: all rows.
  void execute(std::string_view portal, std::uint32_t max_rows);
  void close_statement(std::string_view statement);
  void close_portal(std::string_view portal);
  void sync();

  // --- COPY ---

  void copy_data(std::span<const std::byte> bytes);
  void copy_done();
  void copy_fail(std::string_view reason);

 private:
  void begin_message(char kind);
  void begin_without_kind();
  void end_message();
  void append_text(std::string_view text);
  void empty_message(char kind);

  io::buffer& output_;
  std::size_t length_at_ = 0;  // the position of the message's length in the output
};

}  // namespace gyre::postgres::detail
