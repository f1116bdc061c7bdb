// SPDX-License-Identifier: Apache-2.0
// The wire protocol of PostgreSQL, without a connection.
#include <gyre/base/detail/base64.hpp>
#include <gyre/engines/postgres/detail/backend_message.hpp>
#include <gyre/engines/postgres/detail/body_reader.hpp>
#include <gyre/engines/postgres/detail/message_writer.hpp>
#include <gyre/engines/postgres/detail/read_server_message.hpp>
#include <gyre/engines/postgres/detail/row_view.hpp>
#include <gyre/engines/postgres/detail/saslprep.hpp>
#include <gyre/engines/postgres/detail/scram_client.hpp>
#include <gyre/engines/postgres/detail/statement_cache.hpp>
#include <gyre/engines/postgres/detail/tls_negotiation.hpp>
#include <gyre/engines/postgres/error.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/input.hpp>
#include <gyre/tls/transport.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace postgres_wire_test {
namespace {

using gyre::detail::decode_base64;
using gyre::detail::encode_base64;
using gyre::postgres::errc;
using namespace gyre::postgres::detail;
using testing::ElementsAre;
using testing::IsEmpty;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
template <std::size_t Size>
std::string_view raw(const char (&text)[Size]) {
  return {text, Size - 1};
}
std::string_view text_of(const gyre::io::buffer& buffer) { return buffer.text(); }

// --- Messages of the server ---

struct found_message {
  std::optional<backend_message> message = {};
  errc error = {};
};

found_message find(std::string_view text, connection_phase phase = connection_phase::ready,
                   std::size_t max_size = 1000) {
  gyre::io::input input(text);
  const auto found = take_message(input, phase, max_size);
  return found ? found_message{.message = *found} : found_message{.error = found.error()};
}

TEST(PostgresMessages, AreFoundWhenTheyAreComplete) {
  const std::string_view text = raw("C\0\0\0\x0dSELECT 1\0Z\0\0\0\5I");
  for (std::size_t size = 0; size < 14; ++size) {
    const found_message part = find(text.substr(0, size));
    EXPECT_FALSE(part.message) << size;
    EXPECT_EQ(part.error, errc{});
  }
  gyre::io::input input(text);
  const auto tag = take_message(input, connection_phase::ready, 1000);
  EXPECT_EQ((*tag)->kind, message_kind::command_complete);
  EXPECT_EQ(body_reader((*tag)->body).text(), "SELECT 1");
  const auto ready = take_message(input, connection_phase::ready, 1000);
  EXPECT_EQ((*ready)->kind, message_kind::ready);
  EXPECT_TRUE(input.empty());
}

TEST(PostgresMessages, AreRefusedByTheirFirstBytes) {
  EXPECT_EQ(find("x").error, errc::bad_message);
  EXPECT_EQ(find(raw("D\0\0\0\3")).error, errc::bad_message);
  EXPECT_EQ(find(raw("D\xff\xff\xff\xff")).error, errc::message_too_large);
  EXPECT_EQ(find(raw("D\0\0\3\xed")).error, errc::message_too_large);
  EXPECT_EQ(find(raw("D\0\0\3\xec")).error, errc{});
  EXPECT_EQ(find(raw("Z\0\0\0\6")).error, errc::bad_message);
  EXPECT_EQ(find(raw("Z\0\0\0\4")).error, errc::bad_message);
  EXPECT_EQ(find(raw("1\0\0\0\5")).error, errc::bad_message);
  EXPECT_EQ(find(raw("C\0\0\xff\xff")).error, errc::bad_message);
  EXPECT_EQ(find("W").error, errc::bad_message) << "of replication";
  EXPECT_EQ(find("R").error, errc::bad_message) << "after the login";
}

TEST(PostgresMessages, AreFewAndShortWithinALogin) {
  const auto login = connection_phase::login;
  EXPECT_EQ(find("HTTP/1.1 400 Bad Request\r\n", login).error, errc::bad_message);
  EXPECT_EQ(find("D", login).error, errc::bad_message);
  EXPECT_EQ(find(raw("R\0\1\1\0"), login, 1 << 20).error, errc::message_too_large);
  EXPECT_EQ(find(raw("E\0\1\1\0"), login, 1 << 20).error, errc::message_too_large);
  EXPECT_TRUE(find(raw("R\0\0\0\x08\0\0\0\0"), login).message);
}

TEST(PostgresMessages, HaveTheFieldsOfAnError) {
  const auto error = read_server_message(
      bytes_of(raw("SFEHLER\0VERROR\0C23505\0Mtwo\0Dof them\0Hnone\0P17\0Wwhere\0sx\0ta\0cb\0dt\0"
                   "nkey\0Froutine.c\0L1\0Rroutine\0\0")));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->severity, "ERROR");
  EXPECT_EQ(error->sqlstate, "23505");
  EXPECT_EQ(error->message, "two");
  EXPECT_EQ(error->detail, "of them");
  EXPECT_EQ(error->hint, "none");
  EXPECT_EQ(error->position, 17U);
  EXPECT_EQ(error->context, "where");
  EXPECT_EQ(error->schema, "x");
  EXPECT_EQ(error->table, "a");
  EXPECT_EQ(error->column, "b");
  EXPECT_EQ(error->data_type, "t");
  EXPECT_EQ(error->constraint, "key");
  EXPECT_EQ(error->routine, "routine");
  EXPECT_FALSE(ends_connection(*error));
  const auto old = read_server_message(bytes_of(raw("SFATAL\0Mx\0\0")));
  EXPECT_TRUE(ends_connection(*old));
  const std::string large = "M" + std::string(200'000, 'x') + std::string(2, '\0');
  EXPECT_EQ(read_server_message(bytes_of(large))->message.size(), std::size_t{64} << 10);
  for (const std::string_view wrong : {raw(""), raw("M"), raw("Mx"), raw("Mx\0"), raw("\0\0")}) {
    EXPECT_FALSE(read_server_message(bytes_of(wrong))) << wrong;
  }
}

TEST(PostgresMessages, HaveCheckedRows) {
  const auto row = row_view::parse(bytes_of(raw("\0\3\0\0\0\2ab\xff\xff\xff\xff\0\0\0\0")));
  ASSERT_TRUE(row);
  EXPECT_EQ(row->size(), 3U);
  row_reader reader(*row);
  EXPECT_EQ(reader.next().text(), "ab");
  EXPECT_TRUE(reader.next().is_null);
  const field_view empty = reader.next();
  EXPECT_FALSE(empty.is_null);
  EXPECT_EQ(empty.text(), "");
  for (const std::string_view wrong :
       {raw(""), raw("\0"), raw("\0\1"), raw("\0\1\0\0\0\2a"), raw("\0\1\xff\xff\xff\xfe"),
        raw("\0\1\x7f\xff\xff\xff"), raw("\0\0x"), raw("\xff\xff\0\0\0\0")}) {
    EXPECT_FALSE(row_view::parse(bytes_of(wrong)));
  }
}

// --- Messages of the client ---

TEST(PostgresMessageWriter, WritesEachMessage) {
  gyre::io::buffer output;
  message_writer writer(output);
  const auto take = [&] {
    const std::string text(text_of(output));
    output.clear();
    return text;
  };
  writer.ssl_request();
  EXPECT_EQ(take(), raw("\0\0\0\x08\x04\xd2\x16\x2f"));
  writer.cancel_request(7, bytes_of("key!"));
  EXPECT_EQ(take(), raw("\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\7key!"));
  writer.startup("me", "shop", {{"a", "b"}});
  EXPECT_EQ(take(),
            raw("\0\0\0\x38\0\3\0\0user\0me\0database\0shop\0client_encoding\0UTF8\0a\0b\0\0"));
  writer.password("x");
  EXPECT_EQ(take(), raw("p\0\0\0\6x\0"));
  writer.sasl_initial_response("M", "xy");
  EXPECT_EQ(take(), raw("p\0\0\0\x0cM\0\0\0\0\2xy"));
  writer.sasl_response("xy");
  EXPECT_EQ(take(), raw("p\0\0\0\6xy"));
  writer.query("select 1");
  EXPECT_EQ(take(), raw("Q\0\0\0\x0dselect 1\0"));
  writer.parse("g1", "x");
  EXPECT_EQ(take(), raw("P\0\0\0\x0bg1\0x\0\0\0"));
  writer.describe_statement("g1");
  EXPECT_EQ(take(), raw("D\0\0\0\x08Sg1\0"));
  writer.bind("p", "g1", [](gyre::io::buffer& target) { target.append("VALUES"); }, bytes_of("F"));
  EXPECT_EQ(take(), raw("B\0\0\0\x10p\0g1\0VALUESF"));
  writer.bind_unnamed();
  EXPECT_EQ(take(), raw("B\0\0\0\x0c\0\0\0\0\0\0\0\0"));
  writer.execute("p", 258);
  EXPECT_EQ(take(), raw("E\0\0\0\x0ap\0\0\0\1\2"));
  writer.close_statement("g1");
  EXPECT_EQ(take(), raw("C\0\0\0\x08Sg1\0"));
  writer.close_portal("p");
  EXPECT_EQ(take(), raw("C\0\0\0\7Pp\0"));
  writer.sync();
  EXPECT_EQ(take(), raw("S\0\0\0\4"));
  writer.copy_data(bytes_of("xy"));
  EXPECT_EQ(take(), raw("d\0\0\0\6xy"));
  writer.copy_done();
  EXPECT_EQ(take(), raw("c\0\0\0\4"));
  writer.copy_fail("no");
  EXPECT_EQ(take(), raw("f\0\0\0\7no\0"));
}

TEST(PostgresMessageWriter, RefusesTextsThatWouldEndEarly) {
  gyre::io::buffer output;
  message_writer writer(output);
  EXPECT_THROW(writer.query(raw("a\0b")), std::invalid_argument);
  EXPECT_THROW(writer.parse("g1", raw("a\0b")), std::invalid_argument);
  EXPECT_THROW(writer.password(raw("a\0b")), std::invalid_argument);
  EXPECT_THROW(writer.startup("a", "b", {{"c", std::string(raw("a\0b"))}}), std::invalid_argument);
  EXPECT_THROW(writer.copy_fail(raw("a\0b")), std::invalid_argument);
}

// --- SCRAM ---

TEST(Scram, ProvesItselfAsInTheStandard) {
  // The example of RFC 7677, 3, but with the empty name of PostgreSQL.
  credentials user("user", "pencil");
  scram_client client(user, "rOprNGfwEbeRWgbNEkqO", scram_binding::unsupported, {});
  EXPECT_EQ(client.first_message(), "n,,n=,r=rOprNGfwEbeRWgbNEkqO");
  const std::string reply = client.final_message(
      "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
  EXPECT_THAT(
      reply, testing::StartsWith("c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p="));
  EXPECT_THROW(client.verify("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="), std::system_error)
      << "with another name";
}

TEST(Scram, KeepsTheKeysOfThePassword) {
  credentials user("user", "pencil");
  const std::string decoded = decode_base64("W22ZaJ0SNY7soEsUEjb6gQ==").value();
  const std::span<const std::byte> salt = std::as_bytes(std::span(decoded));
  const scram_keys keys = user.keys_for(salt, 4096);
  EXPECT_EQ(user.keys_for(salt, 4096).server_key, keys.server_key);
  EXPECT_NE(user.keys_for(salt, 4097).server_key, keys.server_key);
  EXPECT_NE(user.keys_for(bytes_of("x"), 4096).server_key, keys.server_key);
  EXPECT_EQ(user.keys_for(salt, 4096).client_key, keys.client_key);
  // The signatures of the example of RFC 7677, 3.
  constexpr std::string_view signed_text =
      "n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
      "s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,"
      "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
  digest proof = keys.client_key;
  const digest signature = hmac_sha256(sha256(keys.client_key), signed_text);
  for (std::size_t index = 0; index < proof.size(); ++index) proof[index] ^= signature[index];
  EXPECT_EQ(encode_base64(proof), "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
  EXPECT_EQ(encode_base64(hmac_sha256(keys.server_key, signed_text)),
            "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
}

TEST(Scram, RefusesHostileMessages) {
  credentials user("user", "pencil");
  for (const char* wrong :
       {"", "r=", "r=nonce,s=QSXCR+Q6sek8bf92,i=4096", "r=noncX1,s=QSXCR+Q6sek8bf92,i=4096",
        "r=nonce1,i=4096,s=QSXCR+Q6sek8bf92", "r=nonce1,s=,i=4096", "r=nonce1,s=!!!!,i=4096",
        "r=nonce1,s=QSXCR+Q6sek8bf92", "r=nonce1,s=QSXCR+Q6sek8bf92,i=",
        "r=nonce1,s=QSXCR+Q6sek8bf92,i=4095", "r=nonce1,s=QSXCR+Q6sek8bf92,i=250001",
        "r=nonce1,s=QSXCR+Q6sek8bf92,i=99999999999", "r=nonce1,s=QSXCR+Q6sek8bf92,i=-1",
        "r=nonce1,s=QSXCR+Q6sek8bf92,i=4096x", "m=x,r=nonce1,s=QSXCR+Q6sek8bf92,i=4096"}) {
    scram_client client(user, "nonce", scram_binding::unsupported, {});
    EXPECT_THROW(static_cast<void>(client.final_message(wrong)), std::system_error) << wrong;
  }
}

TEST(Scram, NoncesDiffer) {
  EXPECT_NE(make_scram_nonce(), make_scram_nonce());
  EXPECT_EQ(make_scram_nonce().find(','), std::string::npos);
}

TEST(Saslprep, MapsSpacesAndDropsWhatIsNothing) {
  EXPECT_EQ(saslprep("pencil"), "pencil");
  EXPECT_EQ(saslprep("a\u00a0b\u3000c"), "a b c");
  EXPECT_EQ(saslprep("I\u00adX\ufeff"), "IX");
  EXPECT_EQ(saslprep("\u00e9\U0001f600"), "\u00e9\U0001f600");
  for (const std::string_view no_utf8 :
       {raw("\xff\xa0"), raw("\xc2"), raw("\xc0\x80"), raw("\xed\xa0\x80"), raw("\xf4\x90\x80\x80"),
        raw("\xe0\x80\x80"), raw("\xc2\xad\x80")}) {
    EXPECT_EQ(saslprep(no_utf8), no_utf8);
  }
}

// --- Prepared statements ---

TEST(StatementCache, DropsTheStatementNotUsedForLongest) {
  statement_cache cache(2);
  std::vector<std::string> dropped;
  const auto add = [&](const char* name, std::string text) {
    cache.add(
        std::make_shared<const prepared_statement>(
            name, std::move(text), std::vector<std::uint32_t>(), std::vector<column_description>()),
        dropped);
  };
  add("1", "a");
  add("2", "b");
  EXPECT_NE(cache.find("a"), nullptr);
  add("3", "c");
  EXPECT_THAT(dropped, ElementsAre("2"));
  EXPECT_EQ(cache.find("b"), nullptr);
  const auto held = cache.find("a");
  cache.find("c");
  add("4", "d");
  EXPECT_THAT(dropped, ElementsAre("2", "3")) << "1 is held";
  add("5", "a");
  EXPECT_THAT(dropped, ElementsAre("2", "3", "1")) << "replaced";
  EXPECT_FALSE(cache.remove(*held));
  EXPECT_TRUE(cache.remove(*cache.find("a")));
  add("6", std::string(5'000'000, 'x'));
  EXPECT_EQ(cache.size(), 1U);
  cache.clear();
  EXPECT_EQ(cache.size(), 0U);
  EXPECT_EQ(cache.find("d"), nullptr);
}

TEST(StatementCache, EncodesFormats) {
  const std::vector<column_description> columns = {{.is_binary = true}, {.is_binary = false}};
  const auto formats = encode_formats(columns);
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(formats.data()), formats.size()),
            raw("\0\2\0\1\0\0"));
}

// --- TLS ---

struct TlsNegotiation : testing::Test {
  using status = gyre::net::layer::status;

  gyre::io::buffer output;
  tls_negotiation negotiation{make_secure(), tls_mode::negotiate};

  static std::unique_ptr<gyre::net::layer> make_secure() {
    const auto context =
        gyre::tls::tls_context::client({.verify = false, .system_authorities = false});
    return gyre::tls::client_transport(context)->make_layer("localhost");
  }
  status take(std::string_view bytes) {
    negotiation.feed(bytes_of(bytes));
    return negotiation.handshake();
  }
  TlsNegotiation() {
    negotiation.send_to(output);
    EXPECT_EQ(negotiation.handshake(), status::wants_input);
    EXPECT_EQ(output.size(), 8U);
    output.clear();
  }
};

TEST_F(TlsNegotiation, BeginsTlsWhenTheServerAgrees) {
  EXPECT_EQ(take(""), status::wants_input);
  EXPECT_TRUE(output.empty());
  EXPECT_EQ(take("S"), status::wants_input);
  EXPECT_THAT(output.text(), testing::StartsWith("\x16\x03"));
  EXPECT_EQ(take("no TLS"), status::failed);
}

TEST_F(TlsNegotiation, RefusesBytesThatNobodyHasSealed) {
  EXPECT_EQ(take("SE"), status::failed);
  EXPECT_EQ(negotiation.error(), errc::bad_message);
  EXPECT_EQ(take(""), status::failed);
}

TEST_F(TlsNegotiation, FailsWithoutTls) {
  EXPECT_EQ(take("N"), status::failed);
  EXPECT_EQ(negotiation.error(), errc::tls_refused);
}

TEST_F(TlsNegotiation, FailsForOtherReplies) {
  EXPECT_EQ(take("E\0\0\0\x10"), status::failed);
  EXPECT_EQ(negotiation.error(), errc::bad_message);
}

}  // namespace
}  // namespace postgres_wire_test
