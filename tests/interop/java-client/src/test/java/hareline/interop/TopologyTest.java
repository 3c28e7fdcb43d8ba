package hareline.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.AMQP.Queue.DeclareOk;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.Return;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Queues, exchanges and bindings, and the reply codes of what they refuse. */
class TopologyTest extends BrokerCase {
  private final List<String> exchanges = new ArrayList<>();

  @BeforeEach
  void selectConfirms() throws Exception {
    channel.confirmSelect();
  }

  @AfterEach
  void deleteExchanges() throws Exception {
    Channel cleaner = open(factory()).createChannel();
    for (String each : exchanges) {
      cleaner.exchangeDelete(each);
    }
  }

  private String exchange(String type, Map<String, Object> arguments) throws IOException {
    String name = uniqueName(type);
    channel.exchangeDeclare(name, type, false, false, arguments);
    exchanges.add(name);
    return name;
  }

  private String exchange(String type) throws IOException {
    return exchange(type, null);
  }

  private void publish(String exchange, String key, Map<String, Object> headers) throws Exception {
    BasicProperties properties = new BasicProperties.Builder().headers(headers).build();
    channel.basicPublish(exchange, key, properties, bytes(key));
    channel.waitForConfirmsOrDie(PATIENCE_MS);
  }

  private void publish(String exchange, String key) throws Exception {
    publish(exchange, key, null);
  }

  @Test
  void declaringAnswersNameAndCounts() throws Exception {
    String name = uniqueName("counted");
    DeclareOk created = channel.queueDeclare(name, false, true, false, null);
    assertEquals(name, created.getQueue());
    assertEquals(0, created.getMessageCount());
    publish("", name);
    new Inbox(channel, name, false).take();
    publish("", name);
    channel.basicCancel(new Inbox(channel, name, false).tag);
    DeclareOk counted = channel.queueDeclarePassive(name);
    assertEquals(1, counted.getConsumerCount());
  }

  @Test
  void redeclaringNeedsTheSameProperties() throws Exception {
    String name = uniqueName("fixed");
    Map<String, Object> arguments = Map.of("x-message-ttl", 60_000);
    Map<String, Object> wider = Map.of("x-message-ttl", 60_000L);
    Map<String, Object> shorter = Map.of("x-message-ttl", 1);
    channel.queueDeclare(name, false, false, false, arguments);
    channel.queueDeclare(name, false, false, false, wider);
    assertRefused(406, other -> other.queueDeclare(name, true, false, false, arguments));
    assertRefused(406, other -> other.queueDeclare(name, false, false, true, arguments));
    assertRefused(406, other -> other.queueDeclare(name, false, false, false, shorter));
    assertRefused(406, other -> other.queueDeclare(name, false, false, false, null));
    assertRefused(405, other -> other.queueDeclare(name, false, true, false, arguments));
    channel.queueDelete(name);
  }

  @Test
  void unknownArgumentsAreNotCompared() throws Exception {
    String name = uniqueName("free");
    channel.queueDeclare(name, false, true, false, Map.of("x-made-up", 1));
    channel.queueDeclare(name, false, true, false, Map.of("x-made-up", "two"));
    channel.queueDeclare(name, false, true, false, null);
  }

  @Test
  void badArgumentsAreRefused() throws Exception {
    Map<String, Object> bad = new HashMap<>();
    bad.put("x-message-ttl", -1);
    bad.put("x-expires", 0);
    bad.put("x-max-length", "many");
    bad.put("x-max-priority", 256);
    bad.put("x-dead-letter-exchange", 7);
    bad.put("x-overflow", "explode");
    for (Map.Entry<String, Object> each : bad.entrySet()) {
      Map<String, Object> arguments = Collections.singletonMap(each.getKey(), each.getValue());
      assertRefused(406, other -> other.queueDeclare("", false, true, true, arguments));
    }
  }

  @Test
  void whatIsMissingIsNotFound() throws Exception {
    String missing = uniqueName("missing");
    assertRefused(404, other -> other.queueDeclarePassive(missing));
    assertRefused(404, other -> other.exchangeDeclarePassive(missing));
    assertRefused(404, other -> other.basicConsume(missing, (tag, each) -> {}, tag -> {}));
    assertRefused(404, other -> other.basicGet(missing, true));
    assertRefused(404, other -> other.queuePurge(missing));
    assertRefused(404, other -> other.queueBind(missing, "amq.direct", ""));
    assertRefused(404, other -> other.queueBind(queue, missing, ""));
    assertRefused(404, other -> other.exchangeBind(missing, "amq.direct", ""));
    assertRefused(404, other -> other.exchangeBind("amq.direct", missing, ""));
  }

  @Test
  void deletingWhatIsMissingIsFine() throws Exception {
    String missing = uniqueName("missing");
    assertEquals(0, channel.queueDelete(missing).getMessageCount());
    assertNotNull(channel.exchangeDelete(missing));
    assertNotNull(channel.queueUnbind(queue, "amq.direct", missing));
    assertNotNull(channel.exchangeUnbind("amq.fanout", "amq.direct", missing));
  }

  @Test
  void reservedNamesAreRefused() throws Exception {
    assertRefused(403, other -> other.queueDeclare("amq.mine", false, false, false, null));
    assertRefused(403, other -> other.exchangeDeclare("amq.mine", "direct"));
    assertRefused(403, other -> other.exchangeDelete("amq.fanout"));
    assertRefused(403, other -> other.exchangeDeclare("", "direct"));
    assertRefused(403, other -> other.queueBind(queue, "", "key"));
    assertRefused(403, other -> other.exchangeBind("amq.fanout", "", "key"));
  }

  @Test
  void anUnknownExchangeTypeIsRefused() throws Exception {
    Channel victim = open(factory()).createChannel();
    // differs: old-exchange-type
    if (brokerIsOlderThan(4)) {
      assertConnectionCloses(
          victim, 503, () -> victim.exchangeDeclare(uniqueName("odd"), "no-such-type"));
    } else {
      assertChannelCloses(
          victim, 406, () -> victim.exchangeDeclare(uniqueName("odd"), "no-such-type"));
    }
  }

  @Test
  void redeclaringAnExchangeNeedsTheSameProperties() throws Exception {
    String name = exchange("direct");
    channel.exchangeDeclare(name, "direct", false, false, null);
    assertRefused(406, other -> other.exchangeDeclare(name, "topic", false, false, null));
    assertRefused(406, other -> other.exchangeDeclare(name, "direct", true, false, null));
    assertRefused(406, other -> other.exchangeDeclare(name, "direct", false, true, null));
    assertRefused(406, other -> other.exchangeDeclare(name, "direct", false, false, true, null));
    assertRefused(
        406,
        other ->
            other.exchangeDeclare(
                name, "direct", false, false, Map.of("alternate-exchange", "amq.fanout")));
  }

  @Test
  void deletingIfUnusedOrEmptyIsRefusedOtherwise() throws Exception {
    String name = exchange("direct");
    channel.queueBind(queue, name, "key");
    assertRefused(406, other -> other.exchangeDelete(name, true));
    publish(name, "key");
    assertRefused(406, other -> other.queueDelete(queue, false, true));
    new Inbox(channel, queue, true).take();
    assertRefused(406, other -> other.queueDelete(queue, true, false));
    channel.queueDelete(queue);
    channel.exchangeDelete(name, true);
    assertRefused(404, other -> other.exchangeDeclarePassive(name));
  }

  @Test
  void purgingCountsTheReadyMessagesOnly() throws Exception {
    fill(queue, 5);
    channel.basicGet(queue, false);
    assertEquals(4, channel.queuePurge(queue).getMessageCount());
    channel.basicNack(0, true, true);
    awaitReady(queue, 1);
  }

  @Test
  void anExclusiveQueueBelongsToItsConnection() throws Exception {
    String name = uniqueName("mine");
    Connection owner = open(factory());
    owner.createChannel().queueDeclare(name, false, true, false, null);
    assertRefused(405, other -> other.queueDeclare(name, false, true, false, null));
    assertRefused(405, other -> other.queueDeclarePassive(name));
    assertRefused(405, other -> other.basicConsume(name, (tag, each) -> {}, tag -> {}));
    assertRefused(405, other -> other.basicGet(name, true));
    assertRefused(405, other -> other.queuePurge(name));
    assertRefused(405, other -> other.queueDelete(name));
    assertRefused(405, other -> other.queueBind(name, "amq.direct", ""));
    owner.close();
    channel.queueDeclare(name, false, true, false, null);
  }

  @Test
  void anExclusiveQueueTakesPublishesOfAnyone() throws Exception {
    Connection owner = open(factory());
    Channel own = owner.createChannel();
    String name = privateQueue(own);
    publish("", name);
    until(() -> own.messageCount(name) == 1, "the message is there");
  }

  @Test
  void anAutoDeleteQueueGoesWithItsLastConsumer() throws Exception {
    String name = uniqueName("fleeting");
    channel.queueDeclare(name, false, false, true, null);
    channel.queueDeclarePassive(name);
    Channel consuming = connection.createChannel();
    Inbox first = new Inbox(consuming, name, true);
    new Inbox(consuming, name, true);
    consuming.basicCancel(first.tag);
    channel.queueDeclarePassive(name);
    consuming.close();
    assertRefused(404, other -> other.queueDeclarePassive(name));
  }

  @Test
  void theLastDeclaredQueueIsMeantByAnEmptyName() throws Exception {
    String name = privateQueue(channel);
    channel.queueBind("", "amq.direct", "");
    publish("amq.direct", name);
    assertEquals(1, channel.messageCount(name));
    assertEquals(1, channel.queuePurge("").getMessageCount());
    assertRefused(404, other -> other.queuePurge(""));
  }

  @Test
  void directExchangesMatchTheKeyExactly() throws Exception {
    String name = exchange("direct");
    channel.queueBind(queue, name, "a.b");
    for (String key : List.of("a.b", "a", "a.*", "A.B", "a.b ")) {
      publish(name, key);
    }
    assertEquals(List.of("a.b"), drainTexts(channel, queue));
  }

  @Test
  void topicExchangesMatchByWords() throws Exception {
    String name = exchange("topic");
    Map<String, List<String>> expected = new HashMap<>();
    expected.put("#", List.of("a", "a.b", "a.b.c", "a.b.b.c", "b.c"));
    expected.put("a.#", List.of("a", "a.b", "a.b.c", "a.b.b.c"));
    expected.put("#.c", List.of("a.b.c", "a.b.b.c", "b.c"));
    expected.put("*.b.*", List.of("a.b.c"));
    expected.put("a.#.b.#", List.of("a.b", "a.b.c", "a.b.b.c"));
    expected.put("#.#", List.of("a", "a.b", "a.b.c", "a.b.b.c", "b.c"));
    expected.put("#.*", List.of("a", "a.b", "a.b.c", "a.b.b.c", "b.c"));
    expected.put("*", List.of("a"));
    expected.put("b.*", List.of("b.c"));
    Map<String, String> queues = new HashMap<>();
    for (String pattern : expected.keySet()) {
      String bound = privateQueue(channel);
      channel.queueBind(bound, name, pattern);
      queues.put(pattern, bound);
    }
    for (String key : List.of("a", "a.b", "a.b.c", "a.b.b.c", "b.c")) {
      publish(name, key);
    }
    for (Map.Entry<String, String> each : queues.entrySet()) {
      assertEquals(
          expected.get(each.getKey()), drainTexts(channel, each.getValue()), each.getKey());
    }
  }

  @Test
  void headersExchangesMatchAllOrAny() throws Exception {
    String name = exchange("headers");
    Map<String, String> queues = new HashMap<>();
    for (String match : List.of("all", "any")) {
      String bound = privateQueue(channel);
      channel.queueBind(bound, name, "", Map.of("x-match", match, "colour", "red", "size", 10));
      queues.put(match, bound);
    }
    Map<String, Object> present = new HashMap<>();
    present.put("colour", null);
    queues.put("present", privateQueue(channel));
    channel.queueBind(queues.get("present"), name, "", present);
    publish(name, "both", Map.of("colour", "red", "size", 10, "extra", true));
    publish(name, "colour", Map.of("colour", "red"));
    publish(name, "wrong", Map.of("colour", "blue", "size", 11));
    publish(name, "nothing", null);
    assertEquals(List.of("both"), drainTexts(channel, queues.get("all")));
    assertEquals(List.of("both", "colour"), drainTexts(channel, queues.get("any")));
    assertEquals(List.of("both", "colour", "wrong"), drainTexts(channel, queues.get("present")));
  }

  @Test
  void headersBindingsMayLookAtHeadersThatBeginWithX() throws Exception {
    String name = exchange("headers");
    Map<String, Object> plain = Map.of("x-match", "all", "x-kind", "audit", "level", 1);
    Map<String, Object> withX = Map.of("x-match", "all-with-x", "x-kind", "audit", "level", 1);
    Map<String, Object> anyX = Map.of("x-match", "any-with-x", "x-kind", "audit", "level", 1);
    List<String> queues = new ArrayList<>();
    for (Map<String, Object> arguments : List.of(plain, withX, anyX)) {
      String bound = privateQueue(channel);
      channel.queueBind(bound, name, "", arguments);
      queues.add(bound);
    }
    publish(name, "level", Map.of("level", 1));
    publish(name, "both", Map.of("level", 1, "x-kind", "audit"));
    publish(name, "kind", Map.of("x-kind", "audit"));
    assertEquals(List.of("level", "both"), drainTexts(channel, queues.get(0)));
    assertEquals(List.of("both"), drainTexts(channel, queues.get(1)));
    assertEquals(List.of("level", "both", "kind"), drainTexts(channel, queues.get(2)));
  }

  @Test
  void aHeadersBindingNeedsAKnownMatch() throws Exception {
    assertRefused(
        406, other -> other.queueBind(queue, "amq.headers", "", Map.of("x-match", "some")));
    assertRefused(406, other -> other.queueBind(queue, "amq.headers", "", Map.of("x-match", 1)));
  }

  @Test
  void exchangesBoundToExchangesPassMessagesOn() throws Exception {
    String source = exchange("topic");
    String middle = exchange("direct");
    String last = exchange("fanout");
    channel.exchangeBind(middle, source, "#");
    channel.exchangeBind(last, middle, "a");
    channel.exchangeBind(source, last, "a cycle");
    channel.queueBind(queue, last, "");
    channel.queueBind(queue, source, "a");
    publish(source, "a");
    publish(source, "b");
    assertEquals(List.of("a"), drainTexts(channel, queue));
    channel.exchangeUnbind(last, middle, "a");
    channel.queueUnbind(queue, source, "a");
    publish(source, "a");
    assertEquals(List.of(), drainTexts(channel, queue));
  }

  @Test
  void aChainOfAutoDeleteExchangesGoesWithItsLastBinding() throws Exception {
    List<String> chain = new ArrayList<>();
    for (int i = 0; i < 3; i++) {
      String each = uniqueName("chain");
      channel.exchangeDeclare(each, "fanout", false, true, null);
      if (i > 0) {
        channel.exchangeBind(each, chain.get(i - 1), "");
      }
      chain.add(each);
    }
    channel.queueBind(queue, chain.get(2), "");
    channel.queueDelete(queue);
    for (String each : chain) {
      assertRefused(404, other -> other.exchangeDeclarePassive(each));
    }
  }

  @Test
  void anAlternateExchangeTakesWhatNothingMatched() throws Exception {
    List<Return> returns = Collections.synchronizedList(new ArrayList<>());
    channel.addReturnListener(returns::add);
    String last = exchange("fanout");
    String second = exchange("direct", Map.of("alternate-exchange", last));
    String first = exchange("direct", Map.of("alternate-exchange", second));
    String secondQueue = privateQueue(channel);
    String lastQueue = privateQueue(channel);
    channel.queueBind(queue, first, "one");
    channel.queueBind(secondQueue, second, "two");
    channel.queueBind(lastQueue, last, "");
    for (String key : List.of("one", "two", "three")) {
      channel.basicPublish(first, key, true, null, bytes(key));
    }
    channel.waitForConfirmsOrDie(PATIENCE_MS);
    assertEquals(List.of("one"), drainTexts(channel, queue));
    assertEquals(List.of("two"), drainTexts(channel, secondQueue));
    assertEquals(List.of("three"), drainTexts(channel, lastQueue));
    assertTrue(returns.isEmpty());
  }

  @Test
  void alternateExchangesThatPointAtEachOtherEnd() throws Exception {
    List<Return> returns = Collections.synchronizedList(new ArrayList<>());
    channel.addReturnListener(returns::add);
    String name = uniqueName("self");
    exchanges.add(name);
    channel.exchangeDeclare(name, "direct", false, false, Map.of("alternate-exchange", name));
    channel.basicPublish(name, "nobody", true, null, bytes("x"));
    channel.waitForConfirmsOrDie(PATIENCE_MS);
    assertEquals(1, returns.size());
  }

  @Test
  void aConsistentHashKeepsAKeyOnItsQueue() throws Exception {
    String name = uniqueName("hash");
    assumeTrue(declares(name, "x-consistent-hash"), "the broker has no x-consistent-hash");
    exchanges.add(name);
    List<String> queues = new ArrayList<>();
    for (int i = 0; i < 4; i++) {
      String bound = privateQueue(channel);
      channel.queueBind(bound, name, "10");
      queues.add(bound);
    }
    for (int i = 0; i < 400; i++) {
      channel.basicPublish(name, "key-" + i % 200, null, bytes("key-" + i % 200));
    }
    channel.waitForConfirmsOrDie(PATIENCE_MS);
    int total = 0;
    for (String each : queues) {
      List<String> texts = drainTexts(channel, each);
      for (String key : texts) {
        assertEquals(2, Collections.frequency(texts, key), key);
      }
      assertTrue(texts.size() >= 20, () -> "a queue got " + texts.size() + " of 400");
      total += texts.size();
    }
    assertEquals(400, total);
  }

  @Test
  void aRandomExchangeReachesOneOfItsQueues() throws Exception {
    String name = uniqueName("random");
    assumeTrue(declares(name, "x-random"), "the broker has no x-random");
    exchanges.add(name);
    String second = privateQueue(channel);
    channel.queueBind(queue, name, "");
    channel.queueBind(second, name, "");
    for (int i = 0; i < 200; i++) {
      channel.basicPublish(name, "", null, bytes("x"));
    }
    channel.waitForConfirmsOrDie(PATIENCE_MS);
    long first = channel.messageCount(queue);
    assertEquals(200, first + channel.messageCount(second));
    assertTrue(first > 40 && first < 160, () -> first + " of 200");
  }

  private boolean declares(String name, String type) throws Exception {
    Channel probe = open(factory()).createChannel();
    try {
      probe.exchangeDeclare(name, type, false, false, null);
      return true;
    } catch (IOException unknown) {
      ShutdownSignalException signal = (ShutdownSignalException) unknown.getCause();
      assertTrue(signal.getMessage().contains("unknown exchange type"), signal.getMessage());
      return false;
    }
  }

  private interface ChannelOperation {
    void run(Channel other) throws Exception;
  }

  /** The operation, on a fresh channel of this connection or a stranger's, is refused. */
  private void assertRefused(int code, ChannelOperation operation) throws Exception {
    Channel victim = (code == 405 ? open(factory()) : connection).createChannel();
    assertChannelCloses(victim, code, () -> operation.run(victim));
  }
}
