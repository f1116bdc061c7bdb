// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/client_options.hpp>

#include <gyre/metrics/exposition.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <system_error>

namespace gyre::postgres {
namespace {

constexpr std::uint16_t default_port = 5432;

// The message does not show the URL, which may contain a password.
[[noreturn, gnu::cold]] void refuse(const std::string& problem) {
  throw std::invalid_argument("gyre::postgres: the connection URL " + problem);
}

std::string decode(std::string_view text, const char* part) {
  std::string result;
  for (std::size_t index = 0; index < text.size(); ++index) {
    if (text[index] != '%') {
      result += text[index];
      continue;
    }
    std::uint8_t byte = 0;
    const char* const digits = text.data() + index + 1;
    if (text.size() - index < 3 ||
        std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2) {
      refuse(std::string("has a '%' without two hexadecimal digits in its ") + part);
    }
    // The server would take a zero byte as the end of the text.
    if (byte == 0) refuse(std::string("has a zero byte in its ") + part);
    result += static_cast<char>(byte);
    index += 2;
  }
  return result;
}

std::uint64_t number_of(const std::string& value, const std::string& name, std::uint64_t max) {
  std::uint64_t number = 0;
  const char* const end = value.data() + value.size();
  const auto result = std::from_chars(value.data(), end, number);
  if (result.ec != std::errc{} || result.ptr != end || number > max) {
    refuse("has a " + name + " that is no number up to " + std::to_string(max));
  }
  return number;
}

// The parts of a URL. The server and the context for TLS are made of them after all were read.
struct url_parts {
  std::string host = {};
  std::uint16_t port = default_port;
  bool has_root_certificate = false;
  tls::client_options tls = {};
  std::string certificate = {};
  std::string key = {};
};

std::uint16_t port_of(const std::string& value) {
  const std::uint64_t port = number_of(value, "port", std::numeric_limits<std::uint16_t>::max());
  if (port == 0) refuse("has the port 0");
  return static_cast<std::uint16_t>(port);
}

encryption encryption_of(const std::string& mode) {
  if (mode == "disable") return encryption::off;
  if (mode == "require") return encryption::require;
  if (mode == "verify-full") return encryption::verify_full;
  if (mode == "verify-ca") {
    refuse("has sslmode=verify-ca, which accepts the certificate of any host: use verify-full");
  }
  if (mode == "allow" || mode == "prefer") {
    refuse("has sslmode=" + mode +
           ", which falls back to plain text whenever somebody wants it: use disable, require or "
           "verify-full");
  }
  refuse("has an unknown sslmode; use disable, require or verify-full");
}

void read_parameter(client_options& options, url_parts& parts, const std::string& name,
                    std::string value) {
  if (name == "host") {
    parts.host = std::move(value);
  } else if (name == "port") {
    parts.port = port_of(value);
  } else if (name == "user") {
    options.user = std::move(value);
  } else if (name == "password") {
    options.password = std::move(value);
  } else if (name == "dbname") {
    options.database = std::move(value);
  } else if (name == "application_name") {
    options.application_name = std::move(value);
  } else if (name == "options") {
    options.settings.emplace_back("options", std::move(value));
  } else if (name == "connect_timeout") {
    const std::uint64_t seconds = number_of(value, name, 86400);
    if (seconds == 0) refuse("has connect_timeout=0: the time is limited, use a larger one");
    options.connect_timeout = std::chrono::seconds(seconds);
  } else if (name == "statement_timeout") {
    const std::uint64_t limit = number_of(value, name, std::numeric_limits<std::int32_t>::max());
    if (limit != 0) options.statement_timeout = std::chrono::milliseconds(limit);
  } else if (name == "sslmode") {
    options.encryption = encryption_of(value);
  } else if (name == "sslrootcert") {
    parts.has_root_certificate = value != "system";
    if (!parts.has_root_certificate) return;
    parts.tls.system_authorities = false;
    parts.tls.authorities = {tls::pem::file(std::move(value))};
  } else if (name == "sslcert") {
    parts.certificate = std::move(value);
  } else if (name == "sslkey") {
    parts.key = std::move(value);
  } else if (name == "sslnegotiation") {
    if (value != "postgres" && value != "direct") refuse("has an unknown sslnegotiation");
    options.tls_start = value == "direct" ? tls_start::direct : tls_start::negotiated;
  } else if (name == "channel_binding") {
    if (value != "disable" && value != "prefer" && value != "require") {
      refuse("has an unknown channel_binding");
    }
    options.channel_binding = value == "disable"   ? channel_binding::off
                              : value == "require" ? channel_binding::require
                                                   : channel_binding::prefer;
  } else {
    refuse("has the name \"" + name.substr(0, 40) + "\", which is not known");
  }
}

void read_parameters(client_options& options, url_parts& parts, std::string_view query) {
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    if (pair.empty()) continue;
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) refuse("has a name without a value after the '?'");
    const std::string name = decode(pair.substr(0, equals), "names after the '?'");
    read_parameter(options, parts, name, decode(pair.substr(equals + 1), "values after the '?'"));
  }
}

// Reads "host:port", "[::1]:port" and parts of these.
void read_server(url_parts& parts, std::string_view server) {
  if (server.contains(',')) {
    refuse("names several hosts: the client connects to one");
  }
  std::string_view port;
  if (server.starts_with('[')) {
    const std::size_t end = server.find(']');
    if (end == std::string_view::npos) refuse("has a '[' without a ']'");
    parts.host = std::string(server.substr(1, end - 1));
    const std::string_view rest = server.substr(end + 1);
    if (!rest.empty() && !rest.starts_with(':')) refuse("has something after the ']' of its host");
    port = rest.empty() ? rest : rest.substr(1);
  } else {
    const std::size_t colon = server.rfind(':');
    parts.host = decode(server.substr(0, colon), "host");
    if (colon != std::string_view::npos) port = server.substr(colon + 1);
  }
  if (!port.empty()) parts.port = port_of(std::string(port));
}

net::host_port server_of(const url_parts& parts) {
  if (parts.host.contains(',')) refuse("names several hosts: the client connects to one");
  if (!parts.host.starts_with('/') && !parts.host.starts_with('@')) {
    return {parts.host.empty() ? "localhost" : parts.host, parts.port};
  }
  // The URL names a directory, in which PostgreSQL's socket has this name.
  return net::host_port("unix:" + parts.host + "/.s.PGSQL." + std::to_string(parts.port));
}

}  // namespace

client_options client_options::parse(std::string_view url) {
  constexpr std::size_t max_size = 16 * 1024;
  if (url.size() > max_size) refuse("is longer than 16 KiB");
  if (url.contains('\0')) refuse("has a zero byte");
  std::string_view rest = url;
  if (rest.starts_with("postgresql://")) {
    rest.remove_prefix(std::string_view("postgresql://").size());
  } else if (rest.starts_with("postgres://")) {
    rest.remove_prefix(std::string_view("postgres://").size());
  } else {
    refuse("does not begin with \"postgresql://\"");
  }
  client_options options;
  url_parts parts;
  const std::size_t question = std::min(rest.find('?'), rest.size());
  const std::string_view query = rest.substr(std::min(question + 1, rest.size()));
  rest = rest.substr(0, question);
  if (rest.contains('#')) refuse("has a '#': write it as %23");
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view authority = rest.substr(0, slash);
  if (slash < rest.size()) options.database = decode(rest.substr(slash + 1), "database");
  // The last '@' ends the password, which often contains one that was not encoded.
  if (const std::size_t position = authority.rfind('@'); position != std::string_view::npos) {
    const std::string_view credentials = authority.substr(0, position);
    authority.remove_prefix(position + 1);
    const std::size_t colon = credentials.find(':');
    options.user = decode(credentials.substr(0, colon), "user");
    if (colon != std::string_view::npos) {
      options.password = decode(credentials.substr(colon + 1), "password");
    }
  }
  read_server(parts, authority);
  read_parameters(options, parts, query);
  options.server = server_of(parts);

  if (options.encryption != encryption::verify_full && parts.has_root_certificate) {
    refuse("has a sslrootcert, which only sslmode=verify-full uses");
  }
  if (parts.certificate.empty() != parts.key.empty()) {
    refuse("has only one of sslcert and sslkey");
  }
  if (options.encryption == encryption::off) {
    if (!parts.certificate.empty()) refuse("has a sslcert without sslmode=require or verify-full");
    return options;
  }
  parts.tls.verify = options.encryption == encryption::verify_full;
  if (!parts.certificate.empty()) {
    parts.tls.own_certificate = tls::certificate{.chain = tls::pem::file(parts.certificate),
                                                 .key = tls::pem::file(parts.key)};
  }
  options.tls = tls::tls_context::client(parts.tls);
  return options;
}

void write_metrics(metrics::exposition& output, const client_metrics& counts) {
  const auto& [shared, open, idle, in_flight, waiting, statements, repetitions, transactions,
               retries] = counts;
  output.add_gauge("gyre_postgres_client_shared_connections", "Shared connections.", shared);
  output.add_gauge("gyre_postgres_client_connections_open", "Other connections, idle or taken.",
                   open);
  output.add_gauge("gyre_postgres_client_connections_idle", "Open connections that wait for use.",
                   idle);
  output.add_gauge("gyre_postgres_client_in_flight", "Statements without a reply.", in_flight);
  output.add_gauge("gyre_postgres_client_waiting", "Calls that wait.", waiting);
  output.add_counter("gyre_postgres_client_statements_total", "Statements.", statements);
  output.add_counter("gyre_postgres_client_repetitions_total",
                     "Statements sent again after a lost connection.", repetitions);
  output.add_counter("gyre_postgres_client_transactions_total", "Transactions that were begun.",
                     transactions);
  output.add_counter("gyre_postgres_client_transaction_retries_total",
                     "Transactions begun again after a serialisation failure.", retries);
}

}  // namespace gyre::postgres
