// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/exchange.hpp>

#include <gyre/base/detail/error_code_of.hpp>
#include <gyre/http/access_log.hpp>
#include <gyre/http/detail/body_length_error.hpp>
#include <gyre/http/detail/characters.hpp>
#include <gyre/http/detail/connection_protocol.hpp>
#include <gyre/http/detail/field_lookup.hpp>
#include <gyre/http/detail/http2_request.hpp>
#include <gyre/http/detail/server_core.hpp>
#include <gyre/http/detail/turn_budget.hpp>
#include <gyre/http/request_target.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/tcp_connection.hpp>
#include <gyre/task/from_callback.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/trace/detail/event.hpp>
#include <gyre/trace/detail/handler_record.hpp>
#include <gyre/trace/detail/recorder.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

namespace gyre::http::detail {
namespace {

// A handler that has written this many bytes without waiting yields to other connections, because a
// fast peer may never make it wait.
constexpr std::size_t max_in_a_row = std::size_t{256} << 10;

constexpr std::string_view upgrade_field = "Upgrade";

// Whether the error comes from reading the request's body, so that the client has caused it.
bool is_of_body(const std::exception_ptr& error) noexcept {
  return gyre::detail::error_code_of(error).category() == http_category();
}

// Whether the client has offered all protocols that the response switches to (RFC 9110, 7.8).
bool offers_protocols(const request& request, const http::fields& response_fields) noexcept {
  const auto is_offered = [&](std::string_view protocol) {
    return has_word(request.fields(), upgrade_field, protocol) ||
           equals_ignoring_case(request.connect_protocol(), protocol);
  };
  for (const field& response_field : response_fields) {
    if (!equals_ignoring_case(response_field.name, upgrade_field)) continue;
    std::string_view protocols = response_field.value;
    while (!protocols.empty()) {
      const std::string_view protocol = trim(take_until(protocols, ','));
      if (!protocol.empty() && !is_offered(protocol)) return false;
    }
  }
  return true;
}

// Stands for the connection of an ended request, for a program that asks the request about it.
class ended_stream final : public exchange_stream {
 public:
  using exchange_stream::exchange_stream;
  ~ended_stream() = default;

  std::shared_ptr<server_core> share_core() const override { return nullptr; }
  bool can_send() const noexcept override { return false; }
  bool must_close() const noexcept override { return true; }
  void send_continue() override {}
  void send(exchange& /*sender*/, response& /*result*/) override {}
  void begin_stream() override {}
  void send_file(body_source& /*source*/) override {}
  write_outcome write(message_writer& /*framing*/, std::span<const std::byte> /*bytes*/) override {
    return write_outcome::taken;
  }
  void end_body(const message_writer& /*framing*/, const http::fields& /*trailers*/) override {}
  void abort() noexcept override {}
  void want_body() override {}
  void on_body_taken(std::size_t /*count*/) noexcept override {}
  void hand_over(connection_protocol_pointer /*successor*/) noexcept override {}
  void on_exchange_ended(keep_alive /*future*/) noexcept override {}
};

}  // namespace

exchange::exchange(server_shard& shard)
    : shard_(&shard), state_(std::make_unique<request_state>(*this)) {}

void exchange::attach(exchange_stream& stream) noexcept {
  stream_ = &stream;
  is_counted_ = true;
}

errc exchange::begin_request(exchange_stream& stream, std::span<const std::byte> head) {
  attach(stream);
  head_bytes_.append(head);
  const errc error =
      parse_request_head(head_bytes_.text(), shard_->core().head_limits, state_->head);
  return error == errc{} ? prepare_request(1) : error;
}

errc exchange::begin_request(exchange_stream& stream, const header_block& head, bool is_end) {
  attach(stream);
  const errc error =
      read_http2_request(head, is_end, shard_->core().head_limits, head_bytes_, state_->head);
  state_->request.connect_protocol_ = state_->head.connect_protocol;
  return error == errc{} ? prepare_request(2) : error;
}

// Describes the request by its head, which must have been parsed.
[[gnu::always_inline]] inline errc exchange::describe_request(std::uint8_t major_version) {
  const request_head& head = state_->head;
  http::request& request = state_->request;
  request.method_ = method_of(head.method);
  request.method_text_ = head.method;
  request.target_ = head.target;
  request.major_version_ = major_version;
  request.minor_version_ = head.framing.minor_version;
  request.host_ = head.host;
  request.fields_ = field_list(head.fields);
  const auto target = request_target::parse_visible(request.method_, head.target);
  if (!target) return errc::bad_target;
  request.path_ = target->path();
  request.query_text_ = target->query();
  if (target->form() == target_form::absolute) {
    // The authority of an absolute target replaces Host (RFC 9112, 3.2.2).
    std::string_view rest = head.target.substr(target->scheme().size() + 3);
    request.host_ = rest.substr(0, rest.find_first_of("/?"));
  }
  return errc{};
}

[[gnu::always_inline]] inline errc exchange::prepare_request(std::uint8_t major_version) {
  if (const errc error = describe_request(major_version); error != errc{}) return error;
  const server_options& options = shard_->core().options;
  if (shard_->core().access_handler || options.counts_routes) start_time_ = shard_->loop().now();
  if (!options.request_ids.field.empty()) [[unlikely]]
    assign_id();
  const chosen_route choice = shard_->core().find(state_->request, state_->match);
  route_ = choice.route;
  middlewares_ = choice.middlewares;
  if (!shard_->core().serves_host(state_->request.host_, stream_->tcp())) {
    // Middleware is left out, because it could respond in place of the misdirected route.
    route_ = &shard_->core().misdirected();
    middlewares_ = {};
  }
  // A peer that has asked for the close sends no more, so its FIN need not be awaited.
  keep_alive_ = state_->head.framing.keep_alive ? keep_alive::kept : keep_alive::close;
  return body_.begin(state_->head.framing, route_->options.streamed_body, max_body_size(),
                     state_->head.expect_continue);
}

// Gives the request the id that a trusted proxy has sent, or a new one.
void exchange::assign_id() {
  const server_options& options = shard_->core().options;
  const request_id_options& ids = options.request_ids;
  const auto may_be_in_id = [](char character) {
    return is(is_unreserved, character) || std::string_view("+/=:@").contains(character);
  };
  if (ids.takes_from_proxies) {
    const std::string_view sent_id = state_->request.field(ids.field).value_or("");
    const bool is_valid = !sent_id.empty() && sent_id.size() <= ids.max_size &&
                          std::ranges::all_of(sent_id, may_be_in_id);
    if (is_valid && is_trusted(options.forwarding, stream_->tcp().peer_endpoint())) {
      state_->request.id_ = sent_id;
      return;
    }
  }
  shard_->make_id(state_->own_id);
  state_->request.id_ = std::string_view(state_->own_id.data(), state_->own_id.size());
}

const request_origin& exchange::origin() noexcept {
  if (!state_->origin) {
    state_->origin = stream_ == nullptr
                         ? request_origin()
                         : find_origin(shard_->core().options.forwarding,
                                       stream_->tcp().peer_endpoint(), state_->request.fields_);
  }
  return *state_->origin;
}

bool exchange::is_secure() const noexcept {
  return stream_ == nullptr ? was_secure_ : stream_->tcp().layer() != nullptr;
}

inplace_stop_token exchange::server_stop_token() const noexcept {
  return shard_->stopping.get_token();
}

event_loop& exchange::loop() const noexcept { return shard_->loop(); }

net::tcp_connection* exchange::connection() const noexcept {
  return stream_ == nullptr ? nullptr : &stream_->tcp();
}

std::uint64_t exchange::max_body_size() const noexcept {
  const route_options& route = route_->options;
  if (route.body_limit != 0) return route.body_limit;
  const server_limits& limits = shard_->core().options.limits;
  return route.streamed_body ? limits.streamed_body : limits.body;
}

void exchange::run_handler() {
  shard_->counts.requests.add(1);
  if (!body_.is_streamed()) state_->request.body_ = body_.text();
  event_loop& loop = shard_->loop();
  const trace::detail::handler_record record(trace::detail::address_of(route_->name.c_str()));
  try {
    handler& target = route_->serve;
    if (!middlewares_.empty()) [[unlikely]] {
      state_->handler.emplace(*this, loop, through_middleware(next_handler(middlewares_, target)));
    } else if (auto* ordinary = std::get_if<handler::ordinary>(&target.function_)) {
      return respond((*ordinary)(state_->request));
    } else if (auto* coroutine = std::get_if<handler::coroutine>(&target.function_)) {
      state_->handler.emplace(*this, loop, (*coroutine)(state_->request));
    } else {
      state_->handler.emplace(*this, loop, target(state_->request));
    }
    begun_ = record.begun();
    record_if_enabled();
    state_->handler->start();
  } catch (...) {
    respond_with(std::current_exception());
  }
}

// Adds the handler to the live tasks, if tasks are recorded. An ordinary function is not added,
// because it never waits.
void exchange::record_if_enabled() {
  if (!gyre::detail::records_live_tasks() || live_ != nullptr) [[likely]]
    return;
  live_ = std::make_unique<live_handler>(shard_->loop(), state_->request.method_text_,
                                         route_->pattern, stream_->tcp().peer_endpoint());
}

task<response> exchange::through_middleware(next_handler first) {
  task<response> rest = first(state_->request);
  co_return co_await std::move(rest);
}

// Called when the coroutine of the handler or of its streamed response has ended. A call that ended
// the coroutine may still run in this object: then release_hold() calls conclude_coroutine().
void exchange::on_coroutine_ended() noexcept {
  has_coroutine_ended_ = true;
  if (holds_ == 0) conclude_coroutine();
}

void exchange::release_hold() noexcept {
  if (--holds_ == 0 && has_coroutine_ended_) conclude_coroutine();
}

void exchange::conclude_coroutine() noexcept {
  has_coroutine_ended_ = false;
  if (stream_ == nullptr) return destroy_without_connection();
  writing_ ? conclude_stream() : conclude_handler();
}

void exchange::conclude_handler() noexcept {
  if (std::exception_ptr error = state_->handler->take_error()) {
    state_->handler.reset();
    return respond_with(error);
  }
  response result = state_->handler->take_result();
  state_->handler.reset();
  respond(std::move(result));
}

void exchange::respond_with(const std::exception_ptr& error) noexcept {
  std::optional<response> result = response_to(error);
  if (!result) return abandon();
  respond(std::move(*result));
}

// Returns the response to a request whose handler has thrown `error`, after it was reported if the
// program has caused it. Returns nothing if the client has left.
std::optional<response> exchange::response_to(const std::exception_ptr& error) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const http_error& failure) {
    try {
      return response::text(std::string(failure.what()) + "\n", failure.status());
    } catch (...) {  // without memory, the report has no text
      return response(failure.status());
    }
  } catch (const std::system_error& failure) {
    // The error of reading the body has passed through the handler.
    if (failure.code().category() == http_category()) {
      close_connection();
      return response(
          static_cast<status>(status_code_of(static_cast<errc>(failure.code().value()))));
    }
    // NOLINTNEXTLINE(bugprone-empty-catch): the exception is reported below
  } catch (...) {
  }
  if (client_has_left()) return std::nullopt;
  report_error(error);
  return response(status::internal_server_error);
}

// Whether the connection has failed or ended, or the handler's stop was requested after the
// client's FIN.
bool exchange::client_has_left() const noexcept {
  return stream_ == nullptr || stop_source_.stop_requested() || !stream_->can_send();
}

// Whether only the head of the request must be kept while a WebSocket is open. The program's
// attachments, the request's id, and the heads of HTTP/2, cannot be made again from the head.
bool exchange::may_release_request() const noexcept {
  const http::request& request = state_->request;
  return request.major_version_ == 1 && request.attachments_.empty() && request.id_.empty() &&
         live_ == nullptr;
}

// Frees the request but for its head, because most upgraded connections are idle.
void exchange::release_request() {
  const std::string_view head = head_bytes_.text();
  released_head_ = std::make_unique_for_overwrite<char[]>(head.size());
  released_size_ = static_cast<std::uint32_t>(head.size());
  std::ranges::copy(head, released_head_.get());
  state_.reset();
  head_bytes_ = io::buffer({.prepend = 0});
}

// Makes a released request again, for functions that are told of its end. Returns false without
// memory.
bool exchange::restore_request() noexcept {
  if (state_ != nullptr) return true;
  try {
    auto state = std::make_unique<request_state>(*this);
    head_bytes_.clear();
    head_bytes_.append(std::string_view(released_head_.get(), released_size_));
    const head_limits& limits = shard_->core().head_limits;
    if (parse_request_head(head_bytes_.text(), limits, state->head) != errc{}) return false;
    state_ = std::move(state);
    static_cast<void>(describe_request(1));
    static_cast<void>(shard_->core().find(state_->request, state_->match));
    return true;
  } catch (...) {
    return false;
  }
}

// Reports an error of the program. Does nothing once the client has left, because clients that
// cause errors by leaving could fill a log.
void exchange::report_error(const std::exception_ptr& error) noexcept {
  if (!client_has_left() && restore_request()) shard_->core().report_error(state_->request, error);
}

void exchange::respond(response result) noexcept {
  try {
    send(result);
  } catch (...) {
    report_error(std::current_exception());
    if (stream_ != nullptr) stream_->abort();
  }
}

// Records a request whose handler has waited.
void exchange::record_request() noexcept {
  trace::detail::record_request(std::exchange(begun_, 0),
                                trace::detail::address_of(route_->name.c_str()),
                                to_number(status_));
}

// Called when the response was passed to the connection. Afterwards the exchange serves another
// request, or is destroyed.
void exchange::finish() noexcept {
  server_core& core = shard_->core();
  shard_->counts.by_class[std::min(to_number(status_) / 100, 5U)].add(1);
  record_request();
  if (core.access_handler || core.options.counts_routes) record_access(!was_cut_);
  leave_connection();
}

void exchange::record_access(bool is_complete) noexcept {
  server_core& core = shard_->core();
  const std::chrono::nanoseconds length = shard_->loop().now() - start_time_;
  if (core.options.counts_routes) {
    shard_->routes[route_->index].record(status_, writer_.written(), length, is_complete);
  }
  if (!core.access_handler || !restore_request()) return;
  try {
    core.access_handler({.request = state_->request,
                         .status = status_,
                         .body_bytes = writer_.written(),
                         .duration = length,
                         .route = route_->pattern,
                         .is_complete = is_complete});
  } catch (...) {
    core.report_error(state_->request, std::current_exception());
  }
}

// Ends the exchange without a response, because the client has left.
void exchange::abandon() noexcept {
  record_request();
  close_connection();
  leave_connection();
}

void exchange::close_connection() noexcept {
  if (keep_alive_ == keep_alive::kept) keep_alive_ = keep_alive::linger;
}

void exchange::leave_connection() noexcept {
  server_core& core = shard_->core();
  exchange_stream& stream = *stream_;
  const bool still_sends = keep_alive_ == keep_alive::close && body_.expects_more();
  const keep_alive future = still_sends ? keep_alive::linger : keep_alive_;
  server_shard& shard = *shard_;
  stream_ = nullptr;
  is_counted_ = false;
  reset();
  shard.release(*this);
  core.end_work();
  stream.on_exchange_ended(future);
}

void exchange::reset() noexcept {
  unlink();
  live_.reset();
  body_.reset();
  writer_.reset();
  sent_in_a_row_ = 0;
  is_upgraded_ = has_coroutine_ended_ = was_cut_ = false;
  if (body_writer_) {
    body_writer_.reset();
    write_ = nullptr;
    run_ = nullptr;
  }
  if (state_ == nullptr) return;  // the object is not used again
  released_head_.reset();
  clear_and_trim(head_bytes_);
  state_->origin.reset();
  http::request& request = state_->request;
  request.body_ = {};
  request.trailers_ = {};
  request.attachments_.clear();
  request.id_ = {};
  request.connect_protocol_ = {};
}

void exchange::detach() noexcept {
  const bool runs = (has_handler() || writing_) && (!has_coroutine_ended_ || holds_ != 0);
  if (!runs) {
    // A request whose response has failed is still counted.
    const auto core = is_counted_ ? stream_->share_core() : nullptr;
    stream_ = nullptr;
    delete this;
    if (core != nullptr) core->end_work();
    return;
  }
  keeps_core_ = stream_->share_core();
  const bool needs_origin = state_ != nullptr || shard_->core().access_handler;
  // The stream finds the origin.
  if (needs_origin && restore_request()) static_cast<void>(origin());
  was_secure_ = is_secure();
  stream_ = nullptr;
  body_.fail(body_.error() == no_error ? errc::truncated : body_.error());
  shard_->budget->stop(*this);
}

void exchange::stop_handler() noexcept {
  ++holds_;
  wake_reader();
  if (stream_ == nullptr) low_water_.wake();
  if (!has_coroutine_ended_) stop_source_.request_stop();
  release_hold();
}

void exchange::destroy_without_connection() noexcept {
  const std::shared_ptr<server_core> core = std::move(keeps_core_);
  record_request();
  const bool has_begun_response = writer_.state() != writing::head;
  if (has_begun_response && (core->access_handler || core->options.counts_routes)) {
    record_access(false);
  }
  delete this;
  core->end_work();
}

// --- The body of the request ---

// Whether the client waits for "100 Continue", and the head of the response was not written. After
// the head, an interim response would become a part of the body.
bool exchange::must_send_continue() const noexcept {
  return body_.awaits_continue() && writer_.state() == writing::head;
}

void exchange::send_continue() {
  if (!must_send_continue() || !body_.take_continue()) return;
  stream_->send_continue();
}

errc exchange::receive_body(io::input& input) {
  if (receiver_ != nullptr) pass_to_receiver(input);
  const errc error = body_.receive(input, shard_->core().head_limits);
  if (error != no_error) return error;
  if (!body_.expects_more() && state_ != nullptr) state_->request.trailers_ = body_.trailers();
  if (!body_.text().empty() || !body_.expects_more()) wake_reader();
  return no_error;
}

errc exchange::receive_body(std::span<const std::byte> bytes) {
  io::input rest(bytes);
  if (receiver_ != nullptr) pass_to_receiver(rest);
  const errc error = body_.append(rest.bytes());
  if (error == no_error && !rest.empty()) wake_reader();
  return error;
}

// Passes the input to the receiver. The body holds no earlier bytes, as the receiver waits for
// input.
void exchange::pass_to_receiver(io::input& input) {
  const std::size_t size = input.size();
  receiver_->on_input(input);
  const std::size_t count = size - input.size();
  body_.skip(count);
  if (!input.empty()) body_.take_memory();
  if (count != 0) stream_->on_body_taken(count);
}

// Wakes the coroutine that waits for bytes of the body, or for its end.
void exchange::wake_reader() noexcept {
  body_.arrival().wake();
  if (receiver_ != nullptr && !body_.expects_more()) receiver_->on_input_ended();
}

void exchange::end_body(const header_block& trailers) {
  if (!body_.expects_more()) return;
  body_.end(trailers);
  state_->request.trailers_ = body_.trailers();
  wake_reader();
}

void exchange::fail_body(errc error) {
  close_connection();
  body_.fail(error);
  wake_reader();
}

void exchange::on_peer_ended() {
  const bool has_whole_body = !body_.expects_more();
  if (!has_whole_body && body_.end_input() != no_error) close_connection();
  const bool runs = (has_handler() || writing_) && !has_coroutine_ended_;
  if (runs && !shard_->core().options.serve_half_closed) return shard_->budget->stop(*this);
  if (has_whole_body) return;
  ++holds_;
  wake_reader();
  release_hold();
}

task<std::optional<std::span<const std::byte>>> exchange::next_chunk() {
  if (!body_.is_streamed()) {
    throw std::logic_error(
        "http::request::next_chunk: the route has no streamed_body: see route_options");
  }
  body_.release_chunk();
  while (body_.text().empty()) {
    if (body_.error() != no_error) {
      throw std::system_error(body_.error(), "http::request::next_chunk");
    }
    if (!body_.expects_more()) co_return std::nullopt;
    if (body_.arrival().has_begun()) {
      throw std::system_error(make_error_code(io::errc::busy), "http::request::next_chunk");
    }
    send_continue();
    auto wait_task = from_callback<void>([this](completion<void> callback) {
      body_.arrival().begin(std::move(callback));
      stream_->want_body();
    });
    const pending_wait::scope waits(body_.arrival());
    co_await std::move(wait_task);
  }
  const std::span<const std::byte> chunk = body_.take_chunk();
  if (stream_ != nullptr) stream_->on_body_taken(chunk.size());
  co_return chunk;
}

// --- The response ---

// Returns the field with the request's id; an empty one if the request has none, or the handler has
// set the field.
field exchange::id_field_besides(const response& result) const noexcept {
  const std::string_view name = shard_->core().options.request_ids.field;
  if (result.fields_.contains(name)) return {};
  return {name, state_->request.id_};
}

bool exchange::holds(std::string_view text) const noexcept {
  const auto contains = [&](std::string_view memory) {
    const std::less_equal<> is_before;
    return is_before(memory.data(), text.data()) &&
           is_before(text.data() + text.size(), memory.data() + memory.size());
  };
  return contains(head_bytes_.text()) || contains(body_.text()) || contains(body_.chunk());
}

void exchange::send(response& result) {
  if (result.source_ != nullptr || is_informational(result.status()) ||
      !state_->request.connect_protocol_.empty()) {
    replace_unsendable(result);
  }
  status_ = result.status();
  is_upgraded_ = is_of(result, body_source::kind::upgrade);
  stream_->send(*this, result);
  if (result.source_ != nullptr) return send_source(*result.source_);
  finish();
}

// Replaces a response that would mislead the client by an error response.
void exchange::replace_unsendable(response& result) {
  if (!may_be_sent(result)) {
    report_error(std::make_exception_ptr(std::logic_error(
        "http::server: an answer with a status below 200 that is no response::upgrade()")));
    result = response(status::internal_server_error);
  }
  const bool upgrades = is_of(result, body_source::kind::upgrade);
  if (!state_->request.connect_protocol_.empty() && !upgrades && is_success(result.status())) {
    // Without the upgrade, the client would take the response for the beginning of the new
    // protocol.
    result =
        response::text("This resource does not speak the protocol.\n", status::not_implemented);
  }
  if (result.source_ == nullptr) return;
  if (upgrades) {
    const bool may_switch = !body_.expects_more() && state_->head.framing.upgrade &&
                            offers_protocols(state_->request, result.fields_);
    if (may_switch) return;
    result = response(status::upgrade_required).set("Upgrade", *result.fields_.get("Upgrade"));
  } else if (!has_whole_file(*result.source_)) {
    result = response(status::internal_server_error);
  }
}

void exchange::refuse_head(response& result) {
  report_error(std::make_exception_ptr(
      std::length_error("http::server: the head of a response is too long for HTTP/2")));
  result = response(status::internal_server_error);
  status_ = result.status();
  is_upgraded_ = false;
}

// Whether the status of the response is final, or that of an upgrade. After an interim status, a
// client would take the response to its next request for the final response.
bool exchange::may_be_sent(const response& result) noexcept {
  const bool is_switch = result.status() == status::switching_protocols;
  if (is_of(result, body_source::kind::upgrade)) {
    return is_switch && result.fields_.contains(upgrade_field);
  }
  return !is_informational(result.status());
}

// Whether the file has all bytes that the head announces. A file may still become shorter while it
// is sent.
bool exchange::has_whole_file(const body_source& source) noexcept {
  if (source.type != body_source::kind::file) return true;
  try {
    net::tcp_connection::check_file(source.file.get(), source.offset, source.count);
    return true;
  } catch (...) {
    report_error(std::current_exception());
    return false;
  }
}

void exchange::send_source(body_source& source) {
  if (is_upgraded_) return start_upgrade(source);
  if (writer_.is_complete()) return finish();
  if (source.type == body_source::kind::stream) return start_stream(std::move(source.write));
  if (source.count != 0) writer_.complete();
  stream_->send_file(source);
  finish();
}

void exchange::start_stream(move_only_function<task<>(body_writer&)> write) {
  stream_->begin_stream();
  write_ = std::move(write);
  upgraded_connection& writer = body_writer_.emplace(*this);
  has_coroutine_ended_ = false;
  if (begun_ == 0) begun_ = trace::detail::begin_now();
  if (!is_upgraded_) record_if_enabled();
  writing_.emplace(*this, shard_->loop(), is_upgraded_ ? run_(writer) : write_(writer));
  writing_->start();
}

// Lets a protocol take the connection over, and releases the request except for what the records at
// the end need.
void exchange::hand_over(body_source& source) {
  server_core& core = shard_->core();
  upgraded_request upgraded{.route = route_,
                            .begun = begun_ != 0 ? begun_ : trace::detail::begin_now()};
  if (core.access_handler || core.error_handler || core.options.counts_routes) {
    upgraded.described = std::make_unique<upgraded_request::description>(
        std::string(head_bytes_.text()), start_time_);
  }
  stream_->begin_stream();
  auto successor = source.make_protocol(stream_->tcp(), *shard_, std::move(upgraded));
  exchange_stream& stream = *stream_;
  server_shard& shard = *shard_;
  stream_ = nullptr;
  is_counted_ = false;
  begun_ = 0;
  reset();
  shard.release(*this);
  stream.hand_over(std::move(successor));
}

void exchange::conclude_upgraded(net::tcp_connection& tcp, server_shard& shard,
                                 upgraded_request& upgrade, const std::exception_ptr& error,
                                 bool has_left) noexcept {
  server_core& core = shard.core();
  if (!has_left) shard.counts.by_class[1].add(1);
  trace::detail::record_request(std::exchange(upgrade.begun, 0),
                                trace::detail::address_of(upgrade.route->name.c_str()),
                                to_number(status::switching_protocols));
  if (upgrade.described == nullptr) {
    if (error && !has_left) {
      core.print_error(upgrade.route->method_text, upgrade.route->pattern, shard.loop().now(),
                       error);
    }
  } else {
    try {
      ended_stream stream(tcp, shard);
      exchange& own_exchange = shard.acquire();
      own_exchange.describe_upgraded(stream, upgrade);
      if (error && !has_left) core.report_error(own_exchange.state_->request, error);
      if (core.access_handler || core.options.counts_routes) {
        own_exchange.record_access(!error && !has_left);
      }
      own_exchange.stream_ = nullptr;
      own_exchange.reset();
      shard.release(own_exchange);
      // NOLINTNEXTLINE(bugprone-empty-catch): without memory nothing is told
    } catch (...) {
    }
  }
  upgrade.described.reset();
  core.end_work();
}

// Describes the request again for the functions that are told of its end.
void exchange::describe_upgraded(exchange_stream& stream, const upgraded_request& upgrade) {
  stream_ = &stream;
  route_ = upgrade.route;
  status_ = status::switching_protocols;
  start_time_ = upgrade.described->begin;
  writer_.begin_upgraded();
  static_cast<void>(writer_.add(upgrade.described->written));
  head_bytes_.append(upgrade.described->head);
  static_cast<void>(
      parse_request_head(head_bytes_.text(), shard_->core().head_limits, state_->head));
  static_cast<void>(describe_request(1));
  static_cast<void>(shard_->core().find(state_->request, state_->match));
}

void exchange::start_upgrade(body_source& source) {
  record_if_enabled();
  if (source.make_protocol && may_release_request()) return hand_over(source);
  close_connection();
  body_.begin_upgraded(!stream_->must_close());
  writer_.begin_upgraded();
  run_ = std::move(source.run);
  if (source.releases_request && may_release_request()) release_request();
  stream_->want_body();
  start_stream({});
}

void exchange::conclude_stream() noexcept {
  std::exception_ptr error = writing_->take_error();
  writing_.reset();
  try {
    if (!error && writer_.missing() != 0) {
      error = std::make_exception_ptr(too_short_body(writer_.missing()));
    }
    if (error) {
      was_cut_ = true;
      if (!is_of_body(error)) report_error(error);
      close_connection();
    }
    // A reset keeps the client from taking a part of the body for the whole. Another protocol, such
    // as WebSocket, tells that itself, and its last bytes must not be lost.
    if (error && !is_upgraded_) {
      stream_->abort();
    } else {
      stream_->end_body(writer_, body_writer_->trailers_);
    }
  } catch (...) {
    was_cut_ = true;
    report_error(std::current_exception());
    stream_->abort();
  }
  finish();
}

void exchange::on_low_water() { low_water_.wake(); }

task<> exchange::write(std::span<const std::byte> bytes) {
  if (bytes.empty()) co_return;
  const write_outcome outcome = write_now(bytes);
  if (outcome == write_outcome::taken && !must_yield(bytes.size())) co_return;
  auto write_task = finish_write(bytes, outcome);
  co_await std::move(write_task);
}

void exchange::check_may_write() const {
  if (stream_ == nullptr || !stream_->can_send()) {
    throw std::system_error(make_error_code(io::errc::closed), "http::body_writer::write");
  }
}

// Passes bytes to the stream, which may take them.
write_outcome exchange::write_now(std::span<const std::byte> bytes) {
  check_may_write();
  if (writer_.add(bytes.size()) != no_error) {
    throw too_long_body();
  }
  const write_outcome outcome = stream_->write(writer_, bytes);
  check_may_write();
  return outcome;
}

// Counts `size` bytes that the stream has taken. Returns whether the coroutine has written many
// bytes without a wait.
bool exchange::must_yield(std::size_t size) noexcept {
  sent_in_a_row_ += size;
  if (sent_in_a_row_ < max_in_a_row) return false;
  sent_in_a_row_ = 0;
  return true;
}

// Waits as the outcome of write_now() requires; yields if the outcome is `taken`.
task<> exchange::finish_write(std::span<const std::byte> bytes, write_outcome outcome) {
  while (outcome != write_outcome::taken) {
    sent_in_a_row_ = 0;
    if (low_water_.has_begun()) {
      throw std::system_error(make_error_code(io::errc::busy), "http::body_writer::write");
    }
    auto wait_task = from_callback<void>(
        [this](completion<void> callback) { low_water_.begin(std::move(callback)); });
    const pending_wait::scope waits(low_water_);
    co_await std::move(wait_task);
    check_may_write();
    if (outcome == write_outcome::taken_and_full) co_return;
    outcome = stream_->write(writer_, bytes);
    check_may_write();
    if (outcome == write_outcome::taken && !must_yield(bytes.size())) co_return;
  }
  co_await yield();
  check_may_write();
}

}  // namespace gyre::http::detail
