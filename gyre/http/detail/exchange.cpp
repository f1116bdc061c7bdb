// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/exchange.hpp>

#include <gyre/http/detail/server_connection.hpp>
#include <gyre/http/detail/server_core.hpp>
#include <gyre/http/request_target.hpp>
#include <gyre/net/tcp_connection.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <system_error>
#include <utility>
#include <variant>

namespace gyre::http::detail {
namespace {

// Memory that an unused exchange keeps in each of its buffers.
constexpr std::size_t most_kept = std::size_t{64} << 10;

void keep_little(io::buffer& used) noexcept {
  if (used.capacity() > most_kept) {
    used = io::buffer({.prepend = 0});
  } else {
    used.clear();
  }
}

}  // namespace

exchange::exchange(server_shard& home) noexcept : shard_(&home), request_(*this) {
  where = &home.loop();
}

errc exchange::begin(server_connection& from, std::span<const std::byte> head) {
  connection_ = &from;
  is_counted_ = true;
  head_bytes_.append(head);
  const errc error = parse_request_head(head_bytes_.text(), shard_->core().head_limits, head_);
  if (error != errc{}) return error;

  request_.method_ = method_of(head_.method);
  request_.method_text_ = head_.method;
  request_.target_ = head_.target;
  request_.minor_version_ = head_.framing.minor_version;
  request_.host_ = head_.host;
  request_.fields_ = field_list(head_.fields);
  const auto target = request_target::parse_visible(request_.method_, head_.target);
  if (!target) return errc::bad_target;
  request_.path_ = target->path();
  request_.query_text_ = target->query();
  if (target->form() == target_form::absolute) {
    // RFC 9112, 3.2.2: it replaces Host.
    std::string_view rest = head_.target.substr(target->scheme().size() + 3);
    request_.host_ = rest.substr(0, rest.find_first_of("/?"));
  }

  if (shard_->core().access_handler) begun_ = shard_->loop().now();
  endpoint_ = shard_->core().find(request_.method_, request_.path_, match_);
  if (!shard_->core().answers_for(request_.host_, from.tcp())) {
    endpoint_ = &shard_->core().misdirected();
  }
  body_open_ = head_.framing.body == body_kind::chunked || head_.framing.length != 0;
  remaining_ = head_.framing.length;
  continue_due_ = body_open_ && head_.expect_continue && request_.minor_version_ != 0;
  close_ = !head_.framing.keep_alive;
  if (remaining_ > body_limit()) return errc::body_too_large;
  return {};
}

inplace_stop_token exchange::server_stop_token() const noexcept {
  return shard_->stopping.get_token();
}

bool exchange::is_streamed() const noexcept {
  return upgraded_ || endpoint_->options.streamed_body;
}

std::uint64_t exchange::body_limit() const noexcept {
  if (!upgraded_ && endpoint_->options.body_limit != 0) return endpoint_->options.body_limit;
  const server_limits& limits = shard_->core().options.limits;
  return is_streamed() ? limits.streamed_body : limits.body;
}

void exchange::run() {
  shard_->counts.requests.add(1);
  if (!is_streamed()) request_.body_ = body_.text();
  stop = stop_source_.get_token();
  finished = [](task_context& self) noexcept -> std::coroutine_handle<> {
    static_cast<exchange&>(self).coroutine_ended();
    return std::noop_coroutine();
  };
  try {
    handler& target = endpoint_->answer;
    // A middleware that answers by itself must not answer for other hosts.
    if (!shard_->core().middlewares.empty() && endpoint_ != &shard_->core().misdirected())
        [[unlikely]] {
      handler_.emplace(through_middleware(next_handler(shard_->core().middlewares, target)));
    } else if (auto* ordinary = std::get_if<handler::ordinary>(&target.function_)) {
      return answer((*ordinary)(request_));
    } else if (auto* coroutine = std::get_if<handler::coroutine>(&target.function_)) {
      handler_.emplace((*coroutine)(request_));
    } else {
      handler_.emplace(target(request_));
    }
    record_if_asked();
    gyre::detail::task_access::state(*handler_).start(*this);
  } catch (...) {
    answer_with(std::current_exception());
  }
}

// A handler that is no coroutine does not wait.
void exchange::record_if_asked() {
  if (!gyre::detail::records_live_tasks() || live_ != nullptr) [[likely]]
    return;
  live_ = std::make_unique<live_handler>(*where, request_.method_text_, endpoint_->pattern,
                                         connection_->tcp().peer_endpoint());
}

task<response> exchange::through_middleware(next_handler first) {
  task<response> rest = first(request_);
  co_return co_await std::move(rest);
}

// The handler, or the function of its streamed response. A stop that ended it may still be at work
// in this object.
void exchange::coroutine_ended() noexcept {
  ended_ = true;
  if (holds_ == 0) conclude();
}

void exchange::release_hold() noexcept {
  if (--holds_ == 0 && ended_) conclude();
}

void exchange::conclude() noexcept {
  ended_ = false;
  if (connection_ == nullptr) return end_alone();
  stream_ ? conclude_stream() : conclude_handler();
}

void exchange::conclude_handler() noexcept {
  auto& state = gyre::detail::task_access::state(*handler_);
  if (std::exception_ptr error = state.take_error()) {
    handler_.reset();
    return answer_with(std::move(error));
  }
  response result = state.take_result();
  handler_.reset();
  answer(std::move(result));
}

void exchange::answer_with(std::exception_ptr error) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const http_error& known) {
    try {
      return answer(response::text(std::string(known.what()) + "\n", known.status()));
    } catch (...) {  // no memory for the text
      return answer(response(known.status()));
    }
  } catch (const std::system_error& known) {
    // The handler has passed on what reading the body told it.
    if (known.code().category() == http_category()) {
      close_ = true;
      const auto code =
          static_cast<status>(status_code_of(static_cast<errc>(known.code().value())));
      return answer(response(code));
    }
  } catch (...) {
    // Reported below.
  }
  if (client_has_left()) return abandon();
  report(error);
  answer(response(status::internal_server_error));
}

// Its FIN was taken for its leave, or the connection has failed.
bool exchange::client_has_left() const noexcept {
  return connection_ == nullptr || stop_source_.stop_requested() || !connection_->tcp().can_send();
}

// Errors that a client causes by leaving are none of the program: it could fill a log with them.
void exchange::report(const std::exception_ptr& error) noexcept {
  if (!client_has_left()) shard_->core().report(request_, error);
}

void exchange::answer(response result) noexcept {
  try {
    send(result);
  } catch (...) {
    report(std::current_exception());
    if (connection_ != nullptr) connection_->tcp().abort();
  }
}

// The request is answered. As after the next two, the object is used for another one, or destroyed.
void exchange::finish() noexcept {
  server_core& core = shard_->core();
  shard_->counts.by_class[std::min(to_number(status_) / 100, 5U)].add(1);
  if (core.access_handler) {
    try {
      core.access_handler({.request = request_,
                           .status = status_,
                           .body_bytes = sent_body_,
                           .duration = shard_->loop().now() - begun_});
    } catch (...) {
      core.report(request_, std::current_exception());
    }
  }
  leave_connection();
}

// The request is not answered, as its client has left.
void exchange::abandon() noexcept {
  close_ = true;
  leave_connection();
}

void exchange::leave_connection() noexcept {
  server_core& core = shard_->core();
  server_connection& from = *connection_;
  // A peer that has asked for the close sends no more.
  const ending how = !close_                                  ? ending::keep_alive
                     : head_.framing.keep_alive || body_open_ ? ending::linger
                                                              : ending::close;
  server_shard& home = *shard_;
  connection_ = nullptr;
  is_counted_ = false;
  reset();
  home.release(*this);
  core.end_work();
  from.exchange_ended(how);
}

void exchange::reset() noexcept {
  live_.reset();
  keep_little(head_bytes_);
  keep_little(body_);
  keep_little(chunk_);
  if (!trailer_fields_.empty()) trailer_fields_.clear();
  trailers_.clear();
  request_.body_ = {};
  request_.trailers_ = {};
  decoder_ = {};
  received_ = sent_body_ = 0;
  sent_in_a_row_ = 0;
  body_error_ = {};
  unwritten_.reset();
  chunked_ = upgraded_ = ended_ = false;
  if (writer_) {
    writer_.reset();
    write_ = nullptr;
    run_ = nullptr;
  }
}

void exchange::detach() noexcept {
  const bool runs = (handler_ || stream_) && (!ended_ || holds_ != 0);
  if (!runs) {
    const auto core = is_counted_ ? connection_->share_core() : nullptr;  // its answer failed
    connection_ = nullptr;
    delete this;
    if (core != nullptr) core->end_work();
    return;
  }
  keeps_core_ = connection_->share_core();
  connection_ = nullptr;
  body_open_ = false;
  if (body_error_ == errc{}) body_error_ = errc::truncated;
  ++holds_;
  wake(reader_waits_);
  wake(writer_waits_);
  stop_source_.request_stop();
  release_hold();
}

void exchange::end_alone() noexcept {
  const std::shared_ptr<server_core> core = std::move(keeps_core_);
  delete this;
  core->end_work();
}

}  // namespace gyre::http::detail
