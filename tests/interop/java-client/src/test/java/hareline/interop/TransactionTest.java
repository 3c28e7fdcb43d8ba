package hareline.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.rabbitmq.client.Channel;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.Return;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Transactions: nothing a channel publishes or settles counts before its commit. */
class TransactionTest extends BrokerCase {
  private Channel tx;

  @BeforeEach
  void openATransactionalChannel() throws Exception {
    tx = connection.createChannel();
    tx.txSelect();
  }

  private void publish(String body) throws Exception {
    tx.basicPublish("", queue, null, bytes(body));
  }

  private GetResponse get() throws Exception {
    GetResponse response = tx.basicGet(queue, false);
    assertNotNull(response, "a message is ready");
    return response;
  }

  private static long tag(GetResponse response) {
    return response.getEnvelope().getDeliveryTag();
  }

  @Test
  void publishesAppearWithTheCommit() throws Exception {
    publish("one");
    publish("two");
    assertEquals(0, tx.messageCount(queue));
    tx.txCommit();
    assertEquals(List.of("one", "two"), drainTexts(channel, queue));
  }

  @Test
  void rolledBackPublishesNeverAppear() throws Exception {
    publish("dropped");
    tx.txRollback();
    publish("kept");
    tx.txCommit();
    assertEquals(List.of("kept"), drainTexts(channel, queue));
  }

  @Test
  void publishesAreDroppedWhenTheChannelCloses() throws Exception {
    publish("dropped");
    tx.close();
    assertEquals(0, channel.messageCount(queue));
  }

  @Test
  void acksCountFromTheCommitOn() throws Exception {
    fill(queue, 2);
    GetResponse first = get();
    GetResponse second = get();
    tx.basicAck(tag(first), false);
    tx.txCommit();
    tx.basicAck(tag(second), false);
    tx.close();
    awaitReady(queue, 1);
    assertEquals(List.of("1"), drainTexts(channel, queue));
  }

  @Test
  void rolledBackAcksLeaveTheMessagesUnacked() throws Exception {
    fill(queue, 1);
    GetResponse response = get();
    tx.basicAck(tag(response), false);
    tx.txRollback();
    assertNull(tx.basicGet(queue, false), "a rollback does not requeue");
    tx.basicAck(tag(response), false);
    tx.txCommit();
    tx.close();
    assertEquals(0, channel.messageCount(queue));
  }

  @Test
  void rolledBackAcksAreRequeuedByClosing() throws Exception {
    fill(queue, 1);
    GetResponse response = get();
    tx.basicAck(tag(response), false);
    tx.txRollback();
    tx.close();
    awaitReady(queue, 1);
    assertTrue(channel.basicGet(queue, true).getEnvelope().isRedeliver());
  }

  @Test
  void anAckOfManyIsCommittedWhole() throws Exception {
    fill(queue, 5);
    List<GetResponse> taken = new ArrayList<>();
    for (int i = 0; i < 5; i++) {
      taken.add(get());
    }
    tx.basicAck(tag(taken.get(3)), true);
    tx.txCommit();
    tx.close();
    awaitReady(queue, 1);
    assertEquals(List.of("4"), drainTexts(channel, queue));
  }

  @Test
  void publishesAndAcksAreOneUnit() throws Exception {
    String next = privateQueue(channel);
    fill(queue, 2);
    tx.basicAck(tag(get()), false);
    tx.basicPublish("", next, null, bytes("result"));
    tx.txRollback();
    assertEquals(0, channel.messageCount(next));
    tx.basicAck(1, false);
    tx.basicPublish("", next, null, bytes("result"));
    tx.txCommit();
    assertEquals(1, channel.messageCount(next));
    tx.close();
    awaitReady(queue, 1);
    assertEquals(List.of("1"), drainTexts(channel, queue));
  }

  @Test
  void nackAndRejectAreTransactionalToo() throws Exception {
    fill(queue, 2);
    GetResponse first = get();
    GetResponse second = get();
    tx.basicNack(tag(first), false, true);
    tx.basicReject(tag(second), true);
    assertEquals(0, channel.messageCount(queue));
    tx.txRollback();
    assertEquals(0, channel.messageCount(queue));
    tx.basicNack(tag(second), true, true);
    tx.txCommit();
    awaitReady(queue, 2);
    assertEquals(List.of("0", "1"), drainTexts(channel, queue));
  }

  @Test
  void deliveriesAreNotHeldBackByATransaction() throws Exception {
    fill(queue, 3);
    Inbox inbox = new Inbox(tx, queue, false);
    List<String> texts = inbox.takeTexts(3);
    assertEquals(numbers(0, 3), texts);
    tx.basicAck(0, true);
    tx.txCommit();
    tx.close();
    assertEquals(0, channel.messageCount(queue));
  }

  @Test
  void autoAckedDeliveriesAreNotPartOfTheTransaction() throws Exception {
    fill(queue, 1);
    assertNotNull(tx.basicGet(queue, true));
    tx.txRollback();
    tx.close();
    assertEquals(0, channel.messageCount(queue));
  }

  @Test
  void returnsComeWithTheCommit() throws Exception {
    List<Return> returns = Collections.synchronizedList(new ArrayList<>());
    tx.addReturnListener(returns::add);
    tx.basicPublish("", "nobody-listens", true, null, bytes("back"));
    assertEquals(0, tx.messageCount(queue));
    assertTrue(returns.isEmpty(), "nothing is returned before the commit");
    tx.txCommit();
    until(() -> returns.size() == 1, "the return came");
    assertEquals(312, returns.get(0).getReplyCode());
  }

  @Test
  void rolledBackMandatoryPublishesAreNotReturned() throws Exception {
    List<Return> returns = Collections.synchronizedList(new ArrayList<>());
    tx.addReturnListener(returns::add);
    tx.basicPublish("", "nobody-listens", true, null, bytes("dropped"));
    tx.txRollback();
    tx.basicPublish("", "nobody-listens", true, null, bytes("back"));
    tx.txCommit();
    until(() -> !returns.isEmpty(), "the return came");
    assertEquals("back", text(returns.get(0).getBody()));
  }

  @Test
  void recoverLeavesAloneWhatTheTransactionAcked() throws Exception {
    fill(queue, 2);
    GetResponse first = get();
    get();
    tx.basicAck(tag(first), false);
    tx.basicRecover(true);
    GetResponse again = get();
    assertEquals("1", text(again.getBody()));
    assertTrue(again.getEnvelope().isRedeliver());
    assertNull(tx.basicGet(queue, false));
    tx.txCommit();
  }

  @Test
  void anErrorDropsTheWholeTransaction() throws Exception {
    fill(queue, 1);
    tx.basicAck(tag(get()), false);
    publish("dropped");
    assertChannelCloses(
        tx, 404, () -> tx.basicPublish(uniqueName("missing"), "", null, bytes("x")));
    awaitReady(queue, 1);
    assertEquals(List.of("0"), drainTexts(channel, queue));
  }

  @Test
  void channelsHaveTransactionsOfTheirOwn() throws Exception {
    Channel other = connection.createChannel();
    other.txSelect();
    publish("mine");
    other.basicPublish("", queue, null, bytes("theirs"));
    tx.txCommit();
    assertEquals(List.of("mine"), drainTexts(channel, queue));
    other.txCommit();
    assertEquals(List.of("theirs"), drainTexts(channel, queue));
  }

  @Test
  void aLargeTransactionKeepsItsOrder() throws Exception {
    for (String each : numbers(0, 3_000)) {
      publish(each);
    }
    assertEquals(0, tx.messageCount(queue));
    tx.txCommit();
    assertEquals(numbers(0, 3_000), drainTexts(channel, queue));
  }

  @Test
  void publishingToAQueueThatGoesBeforeTheCommitIsNoError() throws Exception {
    publish("into the void");
    channel.queueDelete(queue);
    tx.txCommit();
    assertTrue(tx.isOpen());
  }

  @Test
  void acknowledgingTwiceInATransactionIsAnError() throws Exception {
    fill(queue, 1);
    long tag = tag(get());
    tx.basicAck(tag, false);
    assertChannelCloses(
        tx,
        406,
        () -> {
          tx.basicAck(tag, false);
          tx.txCommit();
        });
  }

  @Test
  void selectingAgainChangesNothing() throws Exception {
    publish("one");
    tx.txSelect();
    publish("two");
    tx.txCommit();
    assertEquals(List.of("one", "two"), drainTexts(channel, queue));
  }

  @Test
  void commitAndRollbackNeedATransactionalChannel() throws Exception {
    Channel plain = connection.createChannel();
    assertChannelCloses(plain, 406, plain::txCommit);
    Channel another = connection.createChannel();
    assertChannelCloses(another, 406, another::txRollback);
    assertFalse(plain.isOpen());
  }
}
