package hareline.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.Return;
import com.rabbitmq.client.RpcClient;
import com.rabbitmq.client.RpcClientParams;
import com.rabbitmq.client.RpcServer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Request and reply over amq.rabbitmq.reply-to, by hand and with the client's own RPC classes. */
class DirectReplyTest extends BrokerCase {
  private static final String REPLY_TO = "amq.rabbitmq.reply-to";
  private static final BasicProperties ASKING = new BasicProperties.Builder().replyTo(REPLY_TO).build();

  /** A request from a requester with this inbox, and the reply address that its server sees. */
  private String request(Channel requester) throws Exception {
    requester.basicPublish("", queue, ASKING, bytes("request"));
    awaitReady(queue, 1);
    return channel.basicGet(queue, true).getProps().getReplyTo();
  }

  @Test
  void aReplyReachesItsRequester() throws Exception {
    Channel requester = open(factory()).createChannel();
    Inbox replies = new Inbox(requester, REPLY_TO, true);
    String address = request(requester);
    assertTrue(address.startsWith(REPLY_TO + "."), address);
    channel.basicPublish("", address, null, bytes("reply"));
    Delivery reply = replies.take();
    assertEquals("reply", text(reply.getBody()));
    assertEquals("", reply.getEnvelope().getExchange());
    assertEquals(address, reply.getEnvelope().getRoutingKey());
  }

  @Test
  void anAddressServesManyRepliesAndSurvivesItsUseOnOtherConnections() throws Exception {
    Channel requester = connection.createChannel();
    Inbox replies = new Inbox(requester, REPLY_TO, true);
    String address = request(requester);
    Channel responder = open(factory()).createChannel();
    for (String each : numbers(0, 50)) {
      responder.basicPublish("", address, null, bytes(each));
    }
    assertEquals(numbers(0, 50), replies.takeTexts(50));
  }

  @Test
  void aMandatoryReplyIsRoutedWhileTheRequesterIsThere() throws Exception {
    Channel requester = connection.createChannel();
    Inbox replies = new Inbox(requester, REPLY_TO, true);
    String address = request(requester);
    List<Return> returns = Collections.synchronizedList(new ArrayList<>());
    channel.addReturnListener(returns::add);
    channel.confirmSelect();
    channel.basicPublish("", address, true, null, bytes("reply"));
    channel.waitForConfirmsOrDie(PATIENCE_MS);
    replies.take();
    // Before 4.2, RabbitMQ says NO_ROUTE about a reply that it delivers.
    // differs: old-reply-return
    assertTrue(returns.isEmpty() || brokerIsOlderThan(4));
  }

  @Test
  void theAddressMayBeLookedUpByAPassiveDeclare() throws Exception {
    Channel requester = connection.createChannel();
    new Inbox(requester, REPLY_TO, true);
    String address = request(requester);
    assertEquals(1, channel.queueDeclarePassive(address).getConsumerCount());
    requester.close();
    Channel late = connection.createChannel();
    assertChannelCloses(late, 404, () -> late.queueDeclarePassive(address));
  }

  @Test
  void repliesToAGoneRequesterAreDropped() throws Exception {
    Connection shortLived = open(factory());
    Channel requester = shortLived.createChannel();
    new Inbox(requester, REPLY_TO, true);
    String address = request(requester);
    shortLived.close();
    channel.confirmSelect();
    channel.basicPublish("", address, null, bytes("too late"));
    channel.waitForConfirmsOrDie(PATIENCE_MS);
  }

  @Test
  void aReplyConsumerCannotAcknowledge() throws Exception {
    assertChannelCloses(
        channel, 406, () -> channel.basicConsume(REPLY_TO, false, (tag, each) -> {}, tag -> {}));
  }

  @Test
  void aChannelHasOneReplyConsumer() throws Exception {
    new Inbox(channel, REPLY_TO, true);
    assertChannelCloses(channel, 406, () -> new Inbox(channel, REPLY_TO, true));
  }

  @Test
  void askingWithoutAReplyConsumerIsRefused() throws Exception {
    assertChannelCloses(
        channel, 406, () -> channel.basicPublish("", queue, ASKING, bytes("request")));
  }

  @Test
  void aCancelledReplyConsumerMayBeReplaced() throws Exception {
    Inbox first = new Inbox(channel, REPLY_TO, true);
    channel.basicCancel(first.tag);
    Inbox second = new Inbox(channel, REPLY_TO, true);
    channel.basicPublish("", request(channel), null, bytes("reply"));
    assertEquals("reply", text(second.take().getBody()));
  }

  @Test
  void theReplyQueueTakesNoBindings() throws Exception {
    Channel binding = connection.createChannel();
    new Inbox(binding, REPLY_TO, true);
    // differs: old-reply-binding
    int code = brokerIsOlderThan(4) ? 404 : 403;
    assertChannelCloses(binding, code, () -> binding.queueBind(REPLY_TO, "amq.direct", "key"));
  }

  @Test
  void rpcClientAndServerTalkOverDirectReplies() throws Exception {
    Channel serving = open(factory()).createChannel();
    String requests = serving.queueDeclare().getQueue();
    RpcServer server =
        new RpcServer(serving, requests) {
          @Override
          public byte[] handleCall(Delivery request, BasicProperties replyProperties) {
            return bytes(text(request.getBody()).toUpperCase(java.util.Locale.ROOT));
          }
        };
    Thread loop = new Thread(() -> runQuietly(server));
    loop.start();
    RpcClientParams parameters =
        new RpcClientParams()
            .channel(connection.createChannel())
            .exchange("")
            .routingKey(requests)
            .timeout((int) PATIENCE_MS);
    try (RpcClient client = new RpcClient(parameters)) {
      for (String each : List.of("one", "two", "three")) {
        assertEquals(each.toUpperCase(java.util.Locale.ROOT), client.stringCall(each));
      }
      assertNotNull(client.getConsumer());
    } finally {
      server.terminateMainloop();
      serving.close();
      loop.join(PATIENCE_MS);
    }
  }

  private static void runQuietly(RpcServer server) {
    try {
      server.mainloop();
    } catch (java.io.IOException closed) {
      throw new java.io.UncheckedIOException(closed);
    }
  }
}
