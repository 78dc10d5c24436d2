import { Screen } from '../../components/Screen'

export default function Tokens() {
  return (
    <Screen title="Tokens">
      <p className="hb-muted">Tokens of the API and their roles.</p>
    </Screen>
  )
}
