package hareline.jms.qpid;

/** {@link TransactionCases} with destinations in ADDR syntax. */
class AddrTransactionTest extends TransactionCases {
  @Override
  protected Syntax syntax() {
    return Syntax.ADDR;
  }
}
