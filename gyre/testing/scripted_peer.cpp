// SPDX-License-Identifier: Apache-2.0
#include <gyre/testing/scripted_peer.hpp>

#include <gyre/testing/detail/scripted_backend.hpp>

#include <stdexcept>

namespace gyre::testing {
namespace {

int number_of(std::errc error) {
  if (error == std::errc()) throw std::invalid_argument("scripted_peer: no error was given");
  return static_cast<int>(error);
}

}  // namespace

scripted_peer::scripted_peer(virtual_poller& time, event_loop& loop)
    : loop_(loop),
      connection_(std::make_shared<detail::scripted_connection>(
          detail::scripted_backend::find_or_create(time), loop)) {}

scripted_peer::~scripted_peer() { connection_->close(); }

unique_fd scripted_peer::open() { return connection_->open(); }

scripted_peer& scripted_peer::send(std::string_view bytes) {
  // Skips empty pieces, because a read of no bytes would mean the end.
  if (!bytes.empty())
    connection_->add(detail::scripted_connection::sent{.bytes = std::string(bytes)});
  return *this;
}
scripted_peer& scripted_peer::wait(duration delay) {
  connection_->add(detail::scripted_connection::action{detail::scripted_connection::pause{delay}});
  return *this;
}
scripted_peer& scripted_peer::expect(std::string_view text) {
  connection_->add(detail::scripted_connection::expected{std::string(text)});
  return *this;
}
scripted_peer& scripted_peer::end() {
  connection_->add(detail::scripted_connection::end_of_stream{});
  return *this;
}
scripted_peer& scripted_peer::fail(std::errc error) {
  connection_->add(
      detail::scripted_connection::action{detail::scripted_connection::failure{number_of(error)}});
  return end();
}

scripted_peer& scripted_peer::take_at_most(std::size_t bytes) {
  if (bytes == 0) {
    throw std::invalid_argument(
        "scripted_peer: a write takes at least one byte; see delay_write()");
  }
  connection_->add(detail::scripted_connection::short_write{bytes});
  return *this;
}
scripted_peer& scripted_peer::delay_write(duration delay) {
  connection_->add(
      detail::scripted_connection::write_action{detail::scripted_connection::pause{delay}});
  return *this;
}
scripted_peer& scripted_peer::fail_write(std::errc error) {
  connection_->add(detail::scripted_connection::write_action{
      detail::scripted_connection::failure{number_of(error)}});
  return *this;
}

const std::string& scripted_peer::received() const noexcept { return connection_->received(); }
bool scripted_peer::is_done() const noexcept { return connection_->is_done(); }
bool scripted_peer::has_seen_end() const noexcept { return connection_->has_seen_end(); }

}  // namespace gyre::testing
