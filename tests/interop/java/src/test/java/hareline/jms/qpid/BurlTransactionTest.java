package hareline.jms.qpid;

/** {@link TransactionCases} with destinations in BURL syntax. */
class BurlTransactionTest extends TransactionCases {
  @Override
  protected Syntax syntax() {
    return Syntax.BURL;
  }
}
