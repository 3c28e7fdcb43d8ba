package hareline.interop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.Return;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Date;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Publishing: what arrives is what was sent; returns; CC and BCC; the checks on properties. */
class PublishingTest extends BrokerCase {
  @Test
  void aMessageArrivesWithItsEnvelope() throws Exception {
    Inbox inbox = new Inbox(channel, queue, true);
    channel.basicPublish("", queue, null, bytes("hello"));
    Delivery delivery = inbox.take();
    assertEquals("hello", text(delivery.getBody()));
    assertEquals("", delivery.getEnvelope().getExchange());
    assertEquals(queue, delivery.getEnvelope().getRoutingKey());
    assertEquals(1, delivery.getEnvelope().getDeliveryTag());
    assertFalse(delivery.getEnvelope().isRedeliver());
  }

  @Test
  void messagesOfOnePublisherArriveInOrder() throws Exception {
    Inbox inbox = new Inbox(channel, queue, true);
    for (String each : numbers(0, 5_000)) {
      channel.basicPublish("", queue, null, bytes(each));
    }
    assertEquals(numbers(0, 5_000), inbox.takeTexts(5_000));
  }

  @Test
  void bodiesOfAllSizesArriveIntact() throws Exception {
    Inbox inbox = new Inbox(channel, queue, true);
    int room = connection.getFrameMax() - 8;
    int[] sizes = {0, 1, 100, room - 1, room, room + 1, 2 * room, 2 * room + 1, 4 * 1024 * 1024};
    Random random = new Random(42);
    List<byte[]> bodies = new ArrayList<>();
    for (int size : sizes) {
      byte[] body = new byte[size];
      random.nextBytes(body);
      bodies.add(body);
      channel.basicPublish("", queue, null, body);
    }
    for (byte[] body : bodies) {
      assertArrayEquals(body, inbox.take().getBody(), () -> "a body of " + body.length);
    }
  }

  @Test
  void smallFramesAreKeptInBothDirections() throws Exception {
    ConnectionFactory factory = factory();
    factory.setRequestedFrameMax(8192);
    Channel narrow = open(factory).createChannel();
    assertEquals(8192, narrow.getConnection().getFrameMax());
    String own = privateQueue(narrow);
    byte[] body = new byte[100_000];
    new Random(7).nextBytes(body);
    narrow.basicPublish("", own, null, body);
    until(() -> narrow.messageCount(own) == 1, "the message is enqueued");
    // The client refuses a frame that is larger than what it negotiated.
    assertArrayEquals(body, narrow.basicGet(own, true).getBody());
  }

  @Test
  void aMessageFromLargeFramesIsDeliveredInSmallOnes() throws Exception {
    ConnectionFactory factory = factory();
    factory.setRequestedFrameMax(8192);
    String shared = channel.queueDeclare(uniqueName("shared"), false, false, true, null).getQueue();
    byte[] body = new byte[300_000];
    new Random(8).nextBytes(body);
    Channel narrow = open(factory).createChannel();
    Inbox inbox = new Inbox(narrow, shared, true);
    channel.basicPublish("", shared, null, body);
    assertArrayEquals(body, inbox.take().getBody());
  }

  @Test
  void everyPropertyArrivesAsItWasSent() throws Exception {
    BasicProperties sent =
        new BasicProperties.Builder()
            .contentType("text/plain")
            .contentEncoding("utf-8")
            .deliveryMode(2)
            .priority(9)
            .correlationId("c-1")
            .replyTo("r-1")
            .expiration("600000")
            .messageId("m-1")
            .timestamp(new Date(1_700_000_000_000L))
            .type("t-1")
            .userId(factory().getUsername())
            .appId("a-1")
            .clusterId("cluster-1")
            .build();
    Inbox inbox = new Inbox(channel, queue, true);
    channel.basicPublish("", queue, sent, bytes("x"));
    assertEquals(sent, inbox.take().getProperties());
  }

  @Test
  void propertiesThatWereNotSentStayAbsent() throws Exception {
    Inbox inbox = new Inbox(channel, queue, true);
    channel.basicPublish("", queue, new BasicProperties(), bytes("x"));
    assertEquals(new BasicProperties(), inbox.take().getProperties());
  }

  @Test
  void headersKeepTheirTypesAndWidths() throws Exception {
    Map<String, Object> headers = new LinkedHashMap<>();
    headers.put("byte", (byte) -7);
    headers.put("short", (short) -300);
    headers.put("int", 7);
    headers.put("long", 7L);
    headers.put("largest", Long.MAX_VALUE);
    headers.put("float", 1.5f);
    headers.put("double", 1.5d);
    headers.put("decimal", new BigDecimal("3.14"));
    headers.put("date", new Date(1_700_000_000_000L));
    headers.put("yes", true);
    headers.put("nothing", null);
    headers.put("list", List.of(1, 2L, false));
    headers.put("table", Map.of("inner", Map.of("deep", 1L)));
    BasicProperties sent = new BasicProperties.Builder().headers(headers).build();
    Inbox inbox = new Inbox(channel, queue, true);
    channel.basicPublish("", queue, sent, bytes("x"));
    assertEquals(headers, inbox.take().getProperties().getHeaders());
  }

  @Test
  void textAndBinaryHeadersArriveWithTheirOctets() throws Exception {
    byte[] octets = {0, -1, 1};
    Map<String, Object> headers = new HashMap<>();
    headers.put("text", "naïve ☃");
    headers.put("bytes", octets);
    BasicProperties sent = new BasicProperties.Builder().headers(headers).build();
    Inbox inbox = new Inbox(channel, queue, true);
    channel.basicPublish("", queue, sent, bytes("x"));
    Map<String, Object> received = inbox.take().getProperties().getHeaders();
    assertEquals("naïve ☃", received.get("text").toString());
    assertArrayEquals(octets, assertInstanceOf(byte[].class, received.get("bytes")));
  }

  @Test
  void anUnroutableMandatoryMessageIsReturnedWhole() throws Exception {
    BlockingQueue<Return> returns = new LinkedBlockingQueue<>();
    channel.addReturnListener(returns::add);
    BasicProperties sent = new BasicProperties.Builder().messageId("m-1").build();
    channel.basicPublish("amq.direct", "nobody-listens", true, sent, bytes("back"));
    Return returned = returns.poll(PATIENCE_MS, TimeUnit.MILLISECONDS);
    assertNotNull(returned, "a return");
    assertEquals(312, returned.getReplyCode());
    assertEquals("NO_ROUTE", returned.getReplyText());
    assertEquals("amq.direct", returned.getExchange());
    assertEquals("nobody-listens", returned.getRoutingKey());
    assertEquals(sent, returned.getProperties());
    assertEquals("back", text(returned.getBody()));
  }

  @Test
  void returnsComeInTheOrderOfThePublishes() throws Exception {
    BlockingQueue<Return> returns = new LinkedBlockingQueue<>();
    channel.addReturnListener(returns::add);
    for (String each : numbers(0, 100)) {
      channel.basicPublish("", "nobody-" + each, true, null, bytes(each));
    }
    List<String> texts = new ArrayList<>();
    for (int i = 0; i < 100; i++) {
      Return returned = returns.poll(PATIENCE_MS, TimeUnit.MILLISECONDS);
      assertNotNull(returned, "return number " + i);
      texts.add(text(returned.getBody()));
    }
    assertEquals(numbers(0, 100), texts);
  }

  @Test
  void immediateIsNotImplemented() throws Exception {
    assertConnectionCloses(
        channel, 540, () -> channel.basicPublish("", queue, false, true, null, bytes("now")));
  }

  @Test
  void aMissingExchangeClosesTheChannel() throws Exception {
    assertChannelCloses(
        channel, 404, () -> channel.basicPublish(uniqueName("no"), "", null, bytes("x")));
  }

  @Test
  void anInternalExchangeTakesNoPublishes() throws Exception {
    String internal = uniqueName("internal");
    channel.exchangeDeclare(internal, "fanout", false, true, true, null);
    Channel publisher = connection.createChannel();
    assertChannelCloses(
        publisher, 403, () -> publisher.basicPublish(internal, "", null, bytes("x")));
    channel.exchangeDelete(internal);
  }

  @Test
  void theUserIdMustBeThePublishersOwn() throws Exception {
    BasicProperties own =
        new BasicProperties.Builder().userId(factory().getUsername()).build();
    channel.basicPublish("", queue, own, bytes("signed"));
    awaitReady(queue, 1);
    BasicProperties forged = new BasicProperties.Builder().userId("not-me").build();
    assertChannelCloses(channel, 406, () -> channel.basicPublish("", queue, forged, bytes("x")));
  }

  @Test
  void ccAndBccAddRoutingKeys() throws Exception {
    String cc = privateQueue(channel);
    String bcc = privateQueue(channel);
    publishWithCopies("", queue, List.of(cc), List.of(bcc));
    for (String each : List.of(queue, cc, bcc)) {
      awaitReady(each, 1);
      GetResponse got = channel.basicGet(each, true);
      Map<String, Object> headers = got.getProps().getHeaders();
      assertEquals("[" + cc + "]", headers.get("CC").toString());
      assertNull(headers.get("BCC"), "BCC is not for others to see");
    }
  }

  @Test
  void aQueueNamedTwiceByCcGetsOneCopy() throws Exception {
    publishWithCopies("", queue, List.of(queue, queue), List.of(queue));
    awaitReady(queue, 1);
  }

  @Test
  void ccRoutesThroughTheNamedExchange() throws Exception {
    String second = privateQueue(channel);
    String unrelated = privateQueue(channel);
    channel.queueBind(queue, "amq.direct", queue);
    channel.queueBind(second, "amq.direct", "also-" + second);
    publishWithCopies("amq.direct", queue, List.of("also-" + second, unrelated), List.of());
    awaitReady(queue, 1);
    awaitReady(second, 1);
    assertEquals(0, channel.messageCount(unrelated));
  }

  @Test
  void ccMustBeAnArray() throws Exception {
    BasicProperties odd =
        new BasicProperties.Builder().headers(Collections.singletonMap("CC", 0)).build();
    assertChannelCloses(channel, 406, () -> channel.basicPublish("", queue, odd, bytes("x")));
  }

  @Test
  void aMandatoryMessageWithARoutableCcIsNotReturned() throws Exception {
    BlockingQueue<Return> returns = new LinkedBlockingQueue<>();
    channel.addReturnListener(returns::add);
    channel.confirmSelect();
    BasicProperties copied =
        new BasicProperties.Builder().headers(Map.of("CC", List.of(queue))).build();
    channel.basicPublish("", "nobody-listens", true, copied, bytes("x"));
    assertTrue(channel.waitForConfirms(PATIENCE_MS));
    assertEquals(1, channel.messageCount(queue));
    assertTrue(returns.isEmpty());
  }

  private void publishWithCopies(String exchange, String key, List<String> cc, List<String> bcc)
      throws Exception {
    Map<String, Object> headers = new HashMap<>();
    headers.put("CC", cc);
    headers.put("BCC", bcc);
    BasicProperties copied = new BasicProperties.Builder().headers(headers).build();
    channel.confirmSelect();
    channel.basicPublish(exchange, key, copied, bytes("copied"));
    channel.waitForConfirmsOrDie(PATIENCE_MS);
  }
}
