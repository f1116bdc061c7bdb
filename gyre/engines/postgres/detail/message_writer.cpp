// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/message_writer.hpp>

#include <gyre/base/endian.hpp>

#include <stdexcept>

namespace gyre::postgres::detail {
namespace {

// The number that begins a message without a kind: the version, or the code of a request (see
// "Message Formats" in the protocol's documentation).
constexpr std::uint32_t protocol_version = 3U << 16;
constexpr std::uint32_t cancel_code = 1234U << 16 | 5678U;
constexpr std::uint32_t ssl_code = 1234U << 16 | 5679U;

constexpr std::size_t max_message = 0x3fffffff;  // the server's limit, MaxAllocSize

}  // namespace

void require_no_zero(std::string_view text, const char* subject) {
  if (!text.contains('\0')) return;
  throw std::invalid_argument(std::string("gyre::postgres: ") + subject + " has a zero byte");
}

void message_writer::begin_message(char kind) {
  output_.append(static_cast<std::uint8_t>(kind));
  begin_without_kind();
}

void message_writer::begin_without_kind() {
  length_at_ = output_.size();
  output_.append(std::uint32_t{0});
}

void message_writer::end_message() {
  const std::size_t length = output_.size() - length_at_;
  if (length > max_message) {
    throw std::length_error("gyre::postgres: a message of " + std::to_string(length) +
                            " bytes is larger than the server's limit of 1 GiB");
  }
  store_be(output_.mutable_bytes().data() + length_at_, static_cast<std::uint32_t>(length));
}

void message_writer::append_text(std::string_view text) {
  output_.append(text);
  output_.append(std::uint8_t{0});
}

void message_writer::empty_message(char kind) {
  begin_message(kind);
  end_message();
}

void message_writer::ssl_request() {
  begin_without_kind();
  output_.append(ssl_code);
  end_message();
}

void message_writer::cancel_request(std::int32_t process, std::span<const std::byte> key) {
  begin_without_kind();
  output_.append(cancel_code);
  output_.append(process);
  output_.append(key);
  end_message();
}

void message_writer::startup(std::string_view user, std::string_view database,
                             const parameter_list& parameters) {
  begin_without_kind();
  output_.append(protocol_version);
  const auto add = [this](std::string_view name, std::string_view value) {
    require_no_zero(name, "the name of a parameter");
    require_no_zero(value, "the value of a parameter");
    append_text(name);
    append_text(value);
  };
  add("user", user);
  if (!database.empty()) add("database", database);
  // The codecs read and write UTF-8 only.
  add("client_encoding", "UTF8");
  for (const auto& [name, value] : parameters) add(name, value);
  output_.append(std::uint8_t{0});
  end_message();
}

void message_writer::password(std::string_view secret) {
  require_no_zero(secret, "the password");
  begin_message('p');
  append_text(secret);
  end_message();
}

void message_writer::sasl_response(std::string_view response) {
  begin_message('p');
  output_.append(response);
  end_message();
}

void message_writer::sasl_initial_response(std::string_view mechanism, std::string_view response) {
  begin_message('p');
  append_text(mechanism);
  output_.append(static_cast<std::uint32_t>(response.size()));
  output_.append(response);
  end_message();
}

void message_writer::query(std::string_view script) {
  require_no_zero(script, "a statement");
  begin_message('Q');
  append_text(script);
  end_message();
}

void message_writer::parse(std::string_view statement, std::string_view statement_text) {
  require_no_zero(statement_text, "a statement");
  begin_message('P');
  append_text(statement);
  append_text(statement_text);
  output_.append(std::uint16_t{0});  // no types are stated: the server infers them
  end_message();
}

void message_writer::describe_statement(std::string_view statement) {
  begin_message('D');
  output_.append(static_cast<std::uint8_t>('S'));
  append_text(statement);
  end_message();
}

void message_writer::bind_unnamed() {
  bind(
      {}, {}, [](io::buffer& output) { output.append(std::uint32_t{0}); },
      std::as_bytes(std::span("\0", 2)));
}

void message_writer::execute(std::string_view portal, std::uint32_t max_rows) {
  begin_message('E');
  append_text(portal);
  output_.append(max_rows);
  end_message();
}

void message_writer::close_statement(std::string_view statement) {
  begin_message('C');
  output_.append(static_cast<std::uint8_t>('S'));
  append_text(statement);
  end_message();
}

void message_writer::close_portal(std::string_view portal) {
  begin_message('C');
  output_.append(static_cast<std::uint8_t>('P'));
  append_text(portal);
  end_message();
}

void message_writer::sync() { empty_message('S'); }

void message_writer::copy_data(std::span<const std::byte> bytes) {
  begin_message('d');
  output_.append(bytes);
  end_message();
}

void message_writer::copy_done() { empty_message('c'); }

void message_writer::copy_fail(std::string_view reason) {
  require_no_zero(reason, "the reason of a failed copy");
  begin_message('f');
  append_text(reason);
  end_message();
}

}  // namespace gyre::postgres::detail
